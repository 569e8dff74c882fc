#include "text/chat-template.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <algorithm>
#include <exception>
#include <string_view>

namespace buoy {

namespace {

// Templates in use are below 32 kB and nest less than 20 deep; the parser and the interpreter recurse once per level.
constexpr size_t template_length_max = 1u << 20;
constexpr size_t tag_length_max      = 1u << 14;
constexpr size_t depth_max           = 100;

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// The deepest nesting of brackets and block tags, roughly: enough to refuse what would exhaust the stack.
size_t nesting_depth(std::string_view source) {
    size_t brackets = 0;
    size_t blocks   = 0;
    size_t deepest  = 0;
    for (size_t i = 0; i < source.size(); i++) {
        const char c = source[i];
        if (c == '(' || c == '[' || c == '{') {
            brackets++;
        } else if ((c == ')' || c == ']' || c == '}') && brackets > 0) {
            brackets--;
        }
        if (starts_with(source.substr(i), "{%")) {
            const size_t     word = source.find_first_not_of("-+ \t\r\n", i + 2);
            std::string_view tag  = word == std::string_view::npos ? "" : source.substr(word);
            for (const char * opener : {"if", "for", "macro", "call", "filter"}) {
                blocks += starts_with(tag, opener) ? 1 : 0;
            }
            blocks -= starts_with(tag, "end") && blocks > 0 ? 1 : 0;
        }
        deepest = std::max(deepest, brackets + blocks);
    }
    return deepest;
}

// Unary and ternary chains recurse as well; their length is bounded by that of the tag around them.
size_t longest_tag(std::string_view source) {
    size_t longest = 0;
    for (const auto & [open, close] : {std::pair("{%", "%}"), std::pair("{{", "}}")}) {
        for (size_t first = source.find(open); first != std::string_view::npos; first = source.find(open, first + 2)) {
            const size_t last = std::min(source.find(close, first + 2), source.size());
            longest           = std::max(longest, last - first);
        }
    }
    return longest;
}

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
        check_role(message);
        auto content = jinja::mk_val<jinja::value_string>(utf8_repair(message.content));
        content->mark_input();
        auto object = jinja::mk_val<jinja::value_object>();
        object->insert("role", jinja::mk_val<jinja::value_string>(message.role));
        object->insert("content", content);
        list->push_back(object);
    }
    return list;
}

} // namespace

struct ChatTemplate::Program {
    jinja::program code;
    std::string    source;
};

bool RenderedChat::is_typed(size_t first, size_t last) const {
    const auto after =
        std::lower_bound(typed.begin(), typed.end(), first,
                         [](const std::pair<size_t, size_t> & stretch, size_t at) { return stretch.second <= at; });
    return after != typed.end() && after->first < last;
}

ChatTemplate::ChatTemplate(std::string origin, const std::string & source, std::string bos, std::string eos)
    : origin_(std::move(origin)), bos_(std::move(bos)), eos_(std::move(eos)), program_(std::make_unique<Program>()) {
    if (source.size() > template_length_max || longest_tag(source) > tag_length_max ||
        nesting_depth(source) > depth_max) {
        fail(origin_, ": tokenizer.chat_template is too large or too deeply nested: ", source.size(), " bytes, nested ",
             nesting_depth(source), " deep, longest tag ", longest_tag(source), " bytes");
    }
    try {
        jinja::lexer lexer;
        const auto   tokens = lexer.tokenize(utf8_repair(source));
        program_->code      = jinja::parse_from_tokens(tokens);
        program_->source    = tokens.source;
    } catch (const std::exception & error) {
        fail(origin_, ": tokenizer.chat_template cannot be parsed: ", one_line(error));
    }
}

ChatTemplate::~ChatTemplate() = default;

RenderedChat ChatTemplate::render(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
    const jinja::value list = make_messages(messages);
    RenderedChat       chat;
    try {
        jinja::context context(program_->source);
        context.set_val("messages", list);
        context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(add_generation_prompt));
        context.set_val("bos_token", jinja::mk_val<jinja::value_string>(bos_));
        context.set_val("eos_token", jinja::mk_val<jinja::value_string>(eos_));

        jinja::runtime runtime(context);
        const auto     parts = jinja::runtime::gather_string_parts(runtime.execute(program_->code));
        for (const jinja::string_part & part : parts->val_str.parts) {
            const size_t first = chat.text.size();
            chat.text += part.val;
            if (part.is_input && !part.val.empty()) {
                chat.typed.emplace_back(first, chat.text.size());
            }
        }
    } catch (const std::exception & error) {
        fail(origin_, ": tokenizer.chat_template fails on these messages: ", one_line(error));
    }
    return chat;
}

} // namespace buoy
