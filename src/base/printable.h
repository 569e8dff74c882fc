#pragma once

#include <string>
#include <string_view>

namespace buoy {

// Text from a file or a user, safe for one line on a terminal: control characters and invalid UTF-8 become \xNN,
// and what is longer than length_max bytes is cut.
std::string printable(std::string_view text, size_t length_max = 4096);

// The same between single quotes and shorter, for keys, names and values in messages. Not called quoted: std::quoted would be
// found by argument-dependent lookup wherever <iomanip> is included.
std::string in_quotes(std::string_view text, size_t length_max = 96);

} // namespace buoy
