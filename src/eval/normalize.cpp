#include "eval/normalize.h"

#include "buoy/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace buoy {

namespace {

using Character  = utf8proc_int32_t;
using Characters = std::vector<Character>;

Characters decoded(std::string_view text) {
    const std::string well_formed = utf8_repair(text);
    Characters        out;
    const auto *      at   = reinterpret_cast<const utf8proc_uint8_t *>(well_formed.data());
    auto              left = static_cast<utf8proc_ssize_t>(well_formed.size());
    while (left > 0) {
        Character              c = 0;
        const utf8proc_ssize_t n = utf8proc_iterate(at, left, &c);
        out.push_back(c);
        at += n;
        left -= n;
    }
    return out;
}

void append(std::string & text, Character c) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const utf8proc_ssize_t          n = utf8proc_encode_char(c, bytes.data());
    text.append(reinterpret_cast<const char *>(bytes.data()), static_cast<size_t>(n));
}

bool is_cased(Character c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable.
bool is_case_ignorable(Character c) {
    static constexpr std::array<Character, 15> within_words = {
        '\'', '.', ':', 0x00B7, 0x0387, 0x055F, 0x05F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07};
    switch (utf8proc_category(c)) {
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_SK: return true;
        default:
            return std::find(within_words.begin(), within_words.end(), c) != within_words.end() || c == 0xFF0E ||
                   c == 0xFF1A;
    }
}

// A capital sigma is written differently at the end of a word: a letter before it and none behind.
bool is_final(const Characters & text, size_t at) {
    size_t before = at;
    while (before > 0 && is_case_ignorable(text[before - 1])) {
        before--;
    }
    size_t after = at + 1;
    while (after < text.size() && is_case_ignorable(text[after])) {
        after++;
    }
    return before > 0 && is_cased(text[before - 1]) && (after == text.size() || !is_cased(text[after]));
}

Characters lowered(const Characters & text) {
    constexpr Character sigma = 0x03A3, dotted_i = 0x0130, dot_above = 0x0307;
    Characters          out;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == sigma) {
            out.push_back(is_final(text, i) ? 0x03C2 : 0x03C3);
        } else if (text[i] == dotted_i) {
            out.insert(out.end(), {'i', dot_above});
        } else {
            out.push_back(utf8proc_tolower(text[i]));
        }
    }
    return out;
}

bool is_punctuation(Character c) { // Python's string.punctuation
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_space(Character c) { // Python's str.isspace()
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word(Character c) { // \w of Python's re: letters and numbers; the underscore is gone with the punctuation
    switch (utf8proc_category(c)) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO: return true;
        default: return false;
    }
}

bool is_article(const Character * first, const Character * last) {
    const auto is = [=](std::string_view word) {
        return static_cast<size_t>(last - first) == word.size() && std::equal(first, last, word.begin());
    };
    return is("a") || is("an") || is("the");
}

} // namespace

std::vector<std::string> normalized_words(std::string_view text) {
    Characters kept = lowered(decoded(text));
    kept.erase(std::remove_if(kept.begin(), kept.end(), is_punctuation), kept.end());
    for (size_t first = 0; first < kept.size();) {
        size_t last = first;
        while (last < kept.size() && is_word(kept[last])) {
            last++;
        }
        if (is_article(kept.data() + first, kept.data() + last)) {
            std::fill(kept.data() + first, kept.data() + last, ' ');
        }
        first = std::max(last, first + 1);
    }
    std::vector<std::string> words;
    bool                     inside = false;
    for (const Character c : kept) {
        if (!is_space(c)) {
            if (!inside) {
                words.emplace_back();
            }
            append(words.back(), c);
        }
        inside = !is_space(c);
    }
    return words;
}

std::string normalized_answer(std::string_view text) {
    std::string out;
    for (const std::string & word : normalized_words(text)) {
        out += (out.empty() ? "" : " ") + word;
    }
    return out;
}

} // namespace buoy
