#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace buoy {

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
size_t utf8_sequence_length(std::string_view text);

// The same, but 1 for a byte that begins none: how far to go to the next character.
size_t utf8_character_length(std::string_view text);

// The text with every ill-formed part (stray bytes, truncated or overlong sequences, surrogates) replaced by U+FFFD, one per
// maximal subpart as Unicode recommends; this is also what Python's and Rust's lossy decoders give.
std::string utf8_repair(std::string_view text);

// Length of the text without a character at its end that more bytes may complete.
size_t utf8_whole_length(std::string_view text);

// Columns that a well-formed sequence takes on a terminal: 0, 1 or 2.
int utf8_width(std::string_view sequence);

// The same of a text of any bytes.
size_t utf8_columns(std::string_view text);

// Unicode normalisation form C of well-formed UTF-8.
std::string utf8_nfc(const std::string & text);

} // namespace buoy
