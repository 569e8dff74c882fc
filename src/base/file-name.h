#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// The gate for text of a file or a stranger on its way into a path. Nothing else turns such text into a name.

namespace buoy {

// Longer names meet limits of file systems (255 bytes) once numbers, types and ".part" are added.
inline constexpr size_t file_name_length_max = 128;

// The text as a name, or the first part of one, that is one component and safe on every system: letters, digits and . _ - stay, as do
// printable characters beyond ASCII; everything else becomes a dash. It never begins with a dot or a dash, holds no "..", is no
// name that Windows keeps for a device, and is at most length_max bytes long. May be empty.
std::string file_name_part(std::string_view text, size_t length_max = file_name_length_max);

// The same, `fallback` where nothing is left.
std::string file_name_of(std::string_view text, std::string_view fallback, size_t length_max = file_name_length_max);

// Does the text name a file beside the one it was found in: one component, no control characters, neither "." nor ".."?
bool is_file_name(std::string_view text);

} // namespace buoy
