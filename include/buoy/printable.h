#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// The gate for text of files, models and users on its way to a terminal, a table, a figure, a page or a log. For one line, printable()
// and in_quotes() of buoy/message.h are it.

namespace buoy {

// Length of the character at the start of `text` if a line on a terminal can show it as it is: well-formed UTF-8, no control character
// (C0, C1, delete), none that breaks the line and none that reorders it (bidirectional marks, overrides and isolates); else 0.
size_t printable_length(std::string_view text);

// Text of several lines, whole: line breaks and tabs stay, all else that printable_length() refuses becomes \xNN. For what a model wrote.
std::string printable_lines(std::string_view text);

// JSON as it was dumped, the same JSON: such characters are written as \uNNNN.
std::string printable_json(std::string_view json);

} // namespace buoy
