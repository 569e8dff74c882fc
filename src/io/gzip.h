#pragma once

#include <string>

namespace buoy {

// A whole file, unpacked where it is gzip's (by its first bytes, not its name); at most 1 GiB of text.
std::string load_unpacked(const std::string & path);

} // namespace buoy
