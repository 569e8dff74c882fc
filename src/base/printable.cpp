#include "buoy/printable.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace buoy {

namespace {

void append_escaped(std::string & out, char c) {
    static constexpr char digits[] = "0123456789abcdef";

    const auto byte = static_cast<uint8_t>(c);
    out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

// Moves a character of that length as it is; 0: one byte, escaped.
void move_next(std::string & out, std::string_view & text, size_t length) {
    if (length > 0) {
        out += text.substr(0, length);
    } else {
        append_escaped(out, text[0]);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
}

} // namespace

size_t printable_length(std::string_view text) {
    const size_t length = utf8_sequence_length(text);
    if (length < 2) {
        return length == 1 && text[0] >= 0x20 && text[0] != 0x7f ? 1 : 0;
    }
    uint32_t code = static_cast<uint8_t>(text[0]) & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3fu);
    }
    const auto in       = [code](uint32_t first, uint32_t last) { return code >= first && code <= last; };
    const bool control  = code < 0xa0;
    const bool breaks   = in(0x2028, 0x2029);
    const bool reorders = code == 0x61c || in(0x200e, 0x200f) || in(0x202a, 0x202e) || in(0x2066, 0x206f);
    return control || breaks || reorders ? 0 : length;
}

std::string printable(std::string_view text, size_t length_max) {
    std::string out;
    while (!text.empty()) {
        if (out.size() >= length_max) {
            out += "...";
            break;
        }
        move_next(out, text, printable_length(text));
    }
    return out;
}

std::string in_quotes(std::string_view text, size_t length_max) { return "'" + printable(text, length_max) + "'"; }

std::string printable_lines(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const bool breaks = text.starts_with("\r\n");
        const bool stays  = text[0] == '\n' || text[0] == '\t';
        move_next(out, text, breaks ? 2 : stays ? 1 : printable_length(text));
    }
    return out;
}

std::string printable_json(std::string_view json) {
    std::string out;
    out.reserve(json.size());
    while (!json.empty()) {
        const size_t length = utf8_character_length(json);
        const bool   spaced = json[0] == '\n' || printable_length(json) > 0;
        if (spaced || (length == 1 && json[0] != 0x7f)) {
            out += json.substr(0, length);
        } else { // two or three bytes: nothing above U+FFFF is unprintable
            uint32_t code = static_cast<uint8_t>(json[0]) & (length == 1 ? 0x7fu : 0x7fu >> length);
            for (size_t i = 1; i < length; i++) {
                code = code << 6 | (static_cast<uint8_t>(json[i]) & 0x3fu);
            }
            char text[8];
            std::snprintf(text, sizeof(text), "\\u%04x", code & 0xffffu);
            out += text;
        }
        json.remove_prefix(length);
    }
    return out;
}

} // namespace buoy
