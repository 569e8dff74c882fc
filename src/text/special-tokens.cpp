#include "text/special-tokens.h"

#include "buoy/utf8.h"

#include <algorithm>
#include <string_view>

namespace buoy {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

} // namespace

SpecialTokens::SpecialTokens(const llama_vocab * vocab) {
    const int32_t n_tokens = llama_vocab_n_tokens(vocab);
    for (int32_t id = 0; id < n_tokens; id++) {
        const int  attr    = llama_vocab_get_attr(vocab, id);
        const bool control = (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
        if (!control && (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0) {
            continue;
        }
        Entry entry;
        entry.text    = llama_vocab_get_text(vocab, id);
        entry.id      = id;
        entry.control = control;
        entry.lstrip  = (attr & LLAMA_TOKEN_ATTR_LSTRIP) != 0;
        entry.rstrip  = (attr & LLAMA_TOKEN_ATTR_RSTRIP) != 0;
        if (!entry.text.empty()) {
            entries_.push_back(std::move(entry));
        }
    }
    std::sort(entries_.begin(), entries_.end(), [](const Entry & a, const Entry & b) { return a.text < b.text; });
}

const SpecialTokens::Entry * SpecialTokens::match(const std::string & text, size_t first,
                                                  const Allowed & allowed) const {
    // Narrow the range of entries that share the text's first n bytes; the shortest of a range comes first.
    const Entry * found = nullptr;
    auto          low   = entries_.begin();
    auto          high  = entries_.end();
    for (size_t n = 0; first + n < text.size(); n++) {
        const auto at = [n](const Entry & entry) { return static_cast<unsigned char>(entry.text[n]); };
        const auto c  = static_cast<unsigned char>(text[first + n]);

        low  = std::lower_bound(low, high, c, [&](const Entry & entry, unsigned char b) { return at(entry) < b; });
        high = std::upper_bound(low, high, c, [&](unsigned char b, const Entry & entry) { return b < at(entry); });
        if (low == high) {
            break;
        }
        if (low->text.size() == n + 1) {
            if (!low->control || allowed(first, first + n + 1)) {
                found = &*low;
            }
            ++low;
        }
    }
    return found;
}

std::vector<TextSegment> SpecialTokens::split(const std::string & text, const Allowed & allowed) const {
    std::vector<TextSegment> segments;
    size_t                   text_first = 0;

    const auto push_text = [&](size_t last) {
        if (text_first < last) {
            segments.push_back({-1, text_first, last});
        }
    };

    for (size_t pos = 0; pos < text.size();) {
        const Entry * entry = match(text, pos, allowed);
        if (entry == nullptr) {
            pos++;
            continue;
        }
        size_t text_last = pos;
        while (entry->lstrip && text_last > text_first && is_space(text[text_last - 1])) {
            text_last--;
        }
        push_text(text_last);
        segments.push_back({entry->id, pos, pos + entry->text.size()});
        pos += entry->text.size();
        while (entry->rstrip && pos < text.size() && is_space(text[pos])) {
            pos++;
        }
        text_first = pos;
    }
    push_text(text.size());
    return segments;
}

std::string SpecialTokens::guarded(const std::string & text, const std::string & guard) const {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
        // Tokens may overlap, so every place where one starts is guarded; a token of one character cannot be.
        const Entry * entry  = match(text, pos, [](size_t, size_t) { return true; });
        const size_t  length = utf8_character_length(std::string_view(text).substr(pos));
        out.append(text, pos, length);
        if (entry != nullptr && entry->control && entry->text.size() > length) {
            out += guard;
        }
        pos += length;
    }
    return out;
}

} // namespace buoy
