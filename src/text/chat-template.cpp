#include "text/chat-template.h"

#include "base/run-apart.h"
#include "buoy/message.h"
#include "buoy/utf8.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

namespace buoy {

namespace {

// Templates in use are below 32 kB and nest less than 20 deep.
constexpr size_t template_length_max = 1u << 20;
constexpr size_t depth_max           = 200;

// A template is a program in a language that can recurse and loop, run by an engine that checks neither, nor what it allocates. No look
// at the source tells whether it ends, so it is parsed and run in a process of its own.
constexpr ApartLimits limits = {.cpu_seconds = 2, .memory = 512u << 20, .result_max = 64u << 20};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The deepest nesting of brackets, blocks and signs, roughly: enough to name the reason where a template goes too deep.
class NestingDepth {
public:
    size_t of(std::string_view source) {
        for (size_t i = 0; i < source.size(); i++) {
            const char c = source[i];
            if (c == '(' || c == '[' || c == '{') {
                n_brackets_++;
            } else if ((c == ')' || c == ']' || c == '}') && n_brackets_ > 0) {
                n_brackets_--;
            }
            n_signs_ = c == '-' || c == '+' ? n_signs_ + 1 : is_space(c) ? n_signs_ : 0;
            if (source.substr(i, 2) == "{%") {
                take_tag(source.substr(std::min(source.find_first_not_of("-+ \t\r\n", i + 2), source.size())));
            }
            deepest_ = std::max(deepest_, n_brackets_ + n_blocks_ + n_signs_);
        }
        return deepest_;
    }

private:
    void take_tag(std::string_view tag) {
        for (const char * opener : {"if", "for", "macro", "call", "filter"}) {
            n_blocks_ += tag.starts_with(opener) ? 1 : 0;
        }
        n_blocks_ -= tag.starts_with("end") && n_blocks_ > 0 ? 1 : 0;
    }

    size_t n_brackets_ = 0;
    size_t n_blocks_   = 0;
    size_t n_signs_    = 0; // that follow each other
    size_t deepest_    = 0;
};

// The parser says "parser: what", the interpreter "\n---\nWhile executing …\nError: what", both with lines of source around it.
std::string one_line(const std::exception & error) {
    const std::string mark = "\nError: ";
    std::string       text = error.what();
    const size_t      at   = text.rfind(mark);
    text                   = at == std::string::npos ? text : text.substr(at + mark.size());
    return printable(text.substr(0, text.find('\n')), 300);
}

// Words such as user, tool or ipython; anything else could smuggle control tokens past the marking of contents.
void check_role(const ChatMessage & message) {
    const bool word = std::all_of(message.role.begin(), message.role.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    });
    if (message.role.empty() || !word) {
        fail("a chat message has the role ", in_quotes(message.role),
             ", expected a word such as user, assistant or system");
    }
}

jinja::value make_messages(const std::vector<ChatMessage> & messages) {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const ChatMessage & message : messages) {
        auto content = jinja::mk_val<jinja::value_string>(utf8_repair(message.content));
        content->mark_input();
        auto object = jinja::mk_val<jinja::value_object>();
        object->insert("role", jinja::mk_val<jinja::value_string>(message.role));
        object->insert("content", content);
        list->push_back(object);
    }
    return list;
}

// How the other process sends it: the number of stretches, their ends, the text.
std::string packed(const RenderedChat & chat) {
    std::string out;
    const auto  put = [&](uint64_t number) { out.append(reinterpret_cast<const char *>(&number), sizeof(number)); };
    put(chat.typed.size());
    for (const auto & [first, last] : chat.typed) {
        put(first);
        put(last);
    }
    return out + chat.text;
}

RenderedChat unpacked(std::string_view bytes) {
    const auto take = [&] {
        uint64_t number = 0;
        std::memcpy(&number, bytes.data(), sizeof(number));
        bytes.remove_prefix(sizeof(number));
        return static_cast<size_t>(number);
    };
    RenderedChat chat;
    chat.typed.resize(take());
    for (auto & [first, last] : chat.typed) {
        first = take();
        last  = take();
    }
    chat.text = bytes;
    return chat;
}

} // namespace

bool RenderedChat::is_typed(size_t first, size_t last) const {
    const auto after =
        std::lower_bound(typed.begin(), typed.end(), first,
                         [](const std::pair<size_t, size_t> & stretch, size_t at) { return stretch.second <= at; });
    return after != typed.end() && after->first < last;
}

ChatTemplate::ChatTemplate(std::string origin, const std::string & source, std::string bos, std::string eos)
    : origin_(std::move(origin)), source_(utf8_repair(source)), bos_(std::move(bos)), eos_(std::move(eos)) {
    if (source.size() > template_length_max) {
        fail(origin_, ": tokenizer.chat_template has ", source.size(), " bytes, expected at most ",
             template_length_max);
    }
    if (const size_t depth = NestingDepth().of(source); depth > depth_max) {
        fail(origin_, ": tokenizer.chat_template nests ", depth, " deep, expected at most ", depth_max);
    }
}

RenderedChat ChatTemplate::render(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
    for (const ChatMessage & message : messages) {
        check_role(message);
    }
    const ApartResult result = run_apart([&] { return packed(run(messages, add_generation_prompt)); }, limits);
    const std::string where  = origin_ + ": tokenizer.chat_template ";
    switch (result.end) {
        case ApartResult::End::done: return unpacked(result.text);
        case ApartResult::End::failed: fail(where, result.text);
        case ApartResult::End::too_long:
            fail(where, "takes more than ", limits.cpu_seconds, " seconds on these messages");
        case ApartResult::End::too_large: fail(where, "needs too much memory on these messages");
        case ApartResult::End::crashed: break;
    }
    fail(where, "recurses too deeply, or crashes the template engine otherwise");
}

RenderedChat ChatTemplate::run(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
    std::string    source; // as the lexer changed it
    jinja::program code;
    try {
        jinja::lexer lexer;
        const auto   tokens = lexer.tokenize(source_);
        code                = jinja::parse_from_tokens(tokens);
        source              = tokens.source;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception & error) {
        fail("cannot be parsed: ", one_line(error));
    }
    RenderedChat chat;
    try {
        jinja::context context(source);
        context.set_val("messages", make_messages(messages));
        context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(add_generation_prompt));
        context.set_val("bos_token", jinja::mk_val<jinja::value_string>(bos_));
        context.set_val("eos_token", jinja::mk_val<jinja::value_string>(eos_));

        jinja::runtime runtime(context);
        const auto     parts = jinja::runtime::gather_string_parts(runtime.execute(code));
        for (const jinja::string_part & part : parts->val_str.parts) {
            const size_t first = chat.text.size();
            chat.text += part.val;
            if (part.is_input && !part.val.empty()) {
                chat.typed.emplace_back(first, chat.text.size());
            }
        }
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception & error) {
        fail("fails on these messages: ", one_line(error));
    }
    return chat;
}

} // namespace buoy
