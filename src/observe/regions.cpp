#include "buoy/regions.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <algorithm>

namespace buoy {

namespace {

using Span  = std::pair<int32_t, int32_t>;          // positions
using Bytes = std::pair<size_t, size_t>;            // of a text
using Form  = std::string (*)(const std::string &); // how a tokenizer may have changed a text

std::string as_given(const std::string & text) { return utf8_repair(text); }
std::string normalised(const std::string & text) { return utf8_nfc(utf8_repair(text)); }

// The prompt as the text of its pieces, special tokens included.
class PromptText {
public:
    PromptText(const Vocab & vocab, const std::vector<int32_t> & tokens) {
        for (int32_t id : tokens) {
            text_ += vocab.piece(id, true);
            ends_.push_back(text_.size());
        }
    }

    // Every place of a part, in order; those that overlap one another included.
    std::vector<Bytes> find(const std::string & part) const {
        std::vector<Bytes> found;
        for (size_t at = text_.find(part); at != std::string::npos; at = text_.find(part, at + 1)) {
            found.emplace_back(at, at + part.size());
        }
        return found;
    }

    // The tokens that have a byte in it.
    Span tokens_of(const Bytes & bytes) const {
        const auto first = std::upper_bound(ends_.begin(), ends_.end(), bytes.first);
        const auto last  = std::lower_bound(first, ends_.end(), bytes.second);
        return {static_cast<int32_t>(first - ends_.begin()), static_cast<int32_t>(last - ends_.begin()) + 1};
    }

private:
    std::string         text_;
    std::vector<size_t> ends_; // of each token in text_
};

std::vector<Bytes> find_text(const PromptText & prompt, const std::string & text) {
    std::vector<Bytes> found = prompt.find(as_given(text));
    return found.empty() ? prompt.find(normalised(text)) : found;
}

std::string trimmed(const std::string & text) {
    const char * space = " \t\r\n";
    const size_t first = text.find_first_not_of(space);
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(space) - first + 1);
}

// Where the content of one message is. A template may trim it, or leave it out; what a user typed may also stand in another
// message or in the template itself. So the message is rendered once more behind a mark that nobody types, which tells where it
// begins, and how often its text occurs before.
std::vector<Span> find_message(const PromptText & prompt, const Vocab & vocab,
                               const std::vector<ChatMessage> & messages, size_t index) {
    const std::string mark    = "\xEF\xB7\x9F"; // U+FDDF, one of the characters that are none
    const std::string content = trimmed(messages[index].content);
    if (content.empty()) {
        return {};
    }
    std::vector<ChatMessage> marked = messages;
    marked[index].content           = mark + content;
    const std::string rendered      = vocab.render_chat(messages, true);
    const size_t      from          = vocab.render_chat(marked, true).find(mark);
    const size_t      begin         = from == std::string::npos ? from : rendered.find(as_given(content), from);
    if (begin == std::string::npos) {
        return {};
    }
    for (Form form : {as_given, normalised}) {
        const std::string part   = form(content);
        const std::string before = form(rendered.substr(0, begin)) + part;
        size_t            n      = 0; // places up to and with this one
        for (size_t at = before.find(part); at != std::string::npos; at = before.find(part, at + 1)) {
            n++;
        }
        const std::vector<Bytes> found = prompt.find(part);
        if (n > 0 && found.size() >= n) {
            return {prompt.tokens_of(found[n - 1])};
        }
    }
    return {};
}

std::vector<Span> find_role(const PromptText & prompt, const Vocab & vocab, const std::vector<ChatMessage> & messages,
                            const std::string & role) {
    std::vector<Span> spans;
    for (size_t i = 0; i < messages.size(); i++) {
        if (messages[i].role == role) {
            const std::vector<Span> found = find_message(prompt, vocab, messages, i);
            spans.insert(spans.end(), found.begin(), found.end());
        }
    }
    return spans;
}

// Stretches of positions for which a condition holds.
template <typename Condition> std::vector<Span> stretches(int32_t n, Condition holds) {
    std::vector<Span> spans;
    for (int32_t i = 0; i < n; i++) {
        if (!holds(i)) {
            continue;
        }
        if (spans.empty() || spans.back().second != i) {
            spans.emplace_back(i, i);
        }
        spans.back().second = i + 1;
    }
    return spans;
}

Region resolve(const RegionSpec & spec, const PromptText & prompt, const Vocab & vocab, const RegionSource & source) {
    const std::string where = "region " + in_quotes(spec.name);
    const auto        n_all = static_cast<int32_t>(source.tokens.size()) + source.n_predict;
    Region            region{spec.name, {}};
    if (!spec.role.empty()) {
        region.spans = find_role(prompt, vocab, source.messages, spec.role);
        if (region.spans.empty()) {
            fail(where, ": the prompt has no message with the role ", in_quotes(spec.role));
        }
    } else if (!spec.text.empty()) {
        const std::vector<Bytes> found = find_text(prompt, spec.text);
        if (found.empty()) {
            fail(where, ": the text ", in_quotes(spec.text), " does not occur in the prompt");
        }
        if (static_cast<size_t>(spec.occurrence) > found.size()) {
            fail(where, ": occurrence ", spec.occurrence, " of the text ", in_quotes(spec.text), ", the prompt has ",
                 found.size());
        }
        for (size_t i = 0; i < found.size(); i++) {
            if (spec.occurrence == 0 || static_cast<size_t>(spec.occurrence) == i + 1) {
                region.spans.push_back(prompt.tokens_of(found[i]));
            }
        }
    } else {
        if (spec.last > n_all) {
            fail(where, ": tokens ", spec.first, " to ", spec.last, ", prompt and answer have ", n_all);
        }
        region.spans.emplace_back(spec.first, spec.last);
    }
    return region;
}

bool covers(const Region & region, int32_t position) {
    return std::any_of(region.spans.begin(), region.spans.end(),
                       [=](const Span & span) { return span.first <= position && position < span.second; });
}

} // namespace

std::vector<Region> make_regions(const std::vector<RegionSpec> & specs, const Vocab & vocab,
                                 const RegionSource & source) {
    const PromptText prompt(vocab, source.tokens);
    const auto       n_prompt  = static_cast<int32_t>(source.tokens.size());
    const auto       is_bos    = [&](int32_t i) { return i == 0 && source.tokens[0] == vocab.bos(); };
    const auto       is_masked = [&](int32_t i) {
        return vocab.mask() >= 0 && source.tokens[static_cast<size_t>(i)] == vocab.mask();
    };
    std::vector<Region> regions;
    const auto          add = [&](const std::string & name, std::vector<Span> spans) {
        const bool taken =
            std::any_of(specs.begin(), specs.end(), [&](const RegionSpec & spec) { return spec.name == name; });
        if (!taken && !spans.empty()) {
            regions.push_back({name, std::move(spans)});
        }
    };
    add("bos", stretches(n_prompt, is_bos));
    if (source.messages.empty()) {
        add("user", stretches(n_prompt, [&](int32_t i) { return !is_bos(i) && !is_masked(i); }));
    } else {
        for (const char * role : {"system", "user", "assistant"}) {
            add(role, find_role(prompt, vocab, source.messages, role));
        }
    }
    for (const RegionSpec & spec : specs) {
        regions.push_back(resolve(spec, prompt, vocab, source));
    }
    add("answer", stretches(n_prompt + source.n_predict, [&](int32_t i) { return i >= n_prompt || is_masked(i); }));
    add("other", stretches(n_prompt + source.n_predict, [&](int32_t i) {
            return std::none_of(regions.begin(), regions.end(),
                                [=](const Region & region) { return covers(region, i); });
        }));
    return regions;
}

} // namespace buoy
