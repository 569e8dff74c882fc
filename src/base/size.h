#pragma once

#include <cstdint>
#include <string>

namespace buoy {

// "500M", "8G", "1.5T" (units of 1024) or bytes; an Error that begins with `where`.
uint64_t parse_size(const std::string & where, const std::string & text);

std::string size_text(uint64_t bytes); // 1.2 GiB

} // namespace buoy
