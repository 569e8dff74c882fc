#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// npy_header() for types that we write and do not read: "|O" (a pickle follows), "<U12".
std::string npy_header_of(const std::string & descr, const std::vector<int64_t> & shape);

} // namespace buoy
