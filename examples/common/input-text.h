#pragma once

#include <cstddef>
#include <istream>
#include <string>

// What a program reads from a stream that may never end, such as /dev/zero, has a limit.
inline constexpr size_t input_length_max = 256u << 20; // a text
inline constexpr size_t line_length_max  = 16u << 20;  // a message that is typed

// Everything up to the end. what: the stream's name in messages.
std::string read_to_end(std::istream & in, const std::string & what);
