#include "buoy/utf8.h"

#include "buoy/message.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace buoy {

namespace {

struct Sequence {
    size_t length = 0;     // bytes that can belong to one character, at least 1
    bool   valid  = false; // they are that character
};

// The ranges of the second byte exclude overlong forms, surrogates and code points above U+10FFFF.
Sequence scan_sequence(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };

    const uint8_t lead = byte(0);
    if (lead < 0x80) {
        return {1, true};
    }
    const size_t n_more = lead >= 0xC2 && lead <= 0xDF   ? 1
                          : (lead & 0xF0) == 0xE0        ? 2
                          : lead >= 0xF0 && lead <= 0xF4 ? 3
                                                         : 0;
    if (n_more == 0) {
        return {1, false};
    }
    for (size_t i = 1; i <= n_more; i++) {
        uint8_t low  = 0x80;
        uint8_t high = 0xBF;
        if (i == 1) {
            low  = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
            high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        }
        if (i >= text.size() || byte(i) < low || byte(i) > high) {
            return {i, false};
        }
    }
    return {n_more + 1, true};
}

} // namespace

size_t utf8_sequence_length(std::string_view text) {
    if (text.empty()) {
        return 0;
    }
    const Sequence sequence = scan_sequence(text);
    return sequence.valid ? sequence.length : 0;
}

std::string utf8_repair(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Sequence sequence = scan_sequence(text);
        out += sequence.valid ? text.substr(0, sequence.length) : std::string_view("\xEF\xBF\xBD");
        text.remove_prefix(sequence.length);
    }
    return out;
}

size_t utf8_whole_length(std::string_view text) {
    for (size_t n = 1; n < 4 && n <= text.size(); n++) { // an incomplete character has at most three bytes
        const std::string_view tail = text.substr(text.size() - n);
        if ((static_cast<uint8_t>(tail[0]) & 0xC0) != 0x80) {
            const bool     is_lead  = static_cast<uint8_t>(tail[0]) >= 0xC2 && static_cast<uint8_t>(tail[0]) <= 0xF4;
            const Sequence sequence = scan_sequence(tail);
            return is_lead && !sequence.valid && sequence.length == n ? text.size() - n : text.size();
        }
    }
    return text.size();
}

int utf8_width(std::string_view sequence) {
    utf8proc_int32_t code = 0;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t *>(sequence.data()),
                     static_cast<utf8proc_ssize_t>(sequence.size()), &code);
    return utf8proc_charwidth(code);
}

std::string utf8_nfc(const std::string & text) {
    const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    if (ascii) {
        return text;
    }
    utf8proc_uint8_t * mapped  = nullptr;
    const auto         options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const auto *       bytes   = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
    const auto         length  = utf8proc_map(bytes, static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (length < 0) {
        fail_runtime("cannot normalise ", text.size(), " bytes of text: ", utf8proc_errmsg(length));
    }
    return std::string(reinterpret_cast<const char *>(mapped), static_cast<size_t>(length));
}

size_t utf8_character_length(std::string_view text) { return std::max<size_t>(utf8_sequence_length(text), 1); }

size_t utf8_columns(std::string_view text) {
    size_t n_columns = 0;
    while (!text.empty()) {
        const size_t length = utf8_character_length(text);
        n_columns += static_cast<size_t>(utf8_width(text.substr(0, length)));
        text.remove_prefix(length);
    }
    return n_columns;
}

} // namespace buoy
