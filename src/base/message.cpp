#include "buoy/message.h"

#include <cstdint>

namespace buoy {

namespace {

// Bytes of the well-formed, printable UTF-8 character at the start of text; 0 if there is none.
size_t character_length(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };

    const uint8_t lead = byte(0);
    if (lead < 0x80) {
        return lead >= 0x20 && lead != 0x7f ? 1 : 0;
    }
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < length) {
        return 0;
    }
    uint32_t code = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (byte(i) & 0x3fu);
    }
    const bool overlong  = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    const bool control   = code < 0xa0;                                                              // C1 controls
    const bool reorders  = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069); // bidi overrides
    const bool breaks    = code == 0x2028 || code == 0x2029;
    return overlong || surrogate || control || reorders || breaks || code > 0x10ffff ? 0 : length;
}

} // namespace

std::string printable(std::string_view text, size_t length_max) {
    static constexpr char digits[] = "0123456789abcdef";

    std::string out;
    while (!text.empty()) {
        if (out.size() >= length_max) {
            out += "...";
            break;
        }
        const size_t length = character_length(text);
        if (length > 0) {
            out += text.substr(0, length);
            text.remove_prefix(length);
        } else {
            const auto byte = static_cast<uint8_t>(text[0]);
            out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
            text.remove_prefix(1);
        }
    }
    return out;
}

std::string in_quotes(std::string_view text, size_t length_max) { return "'" + printable(text, length_max) + "'"; }

} // namespace buoy
