#pragma once

#include <cstdint>
#include <string>

namespace buoy {

std::string size_text(uint64_t bytes); // 1.2 GiB

} // namespace buoy
