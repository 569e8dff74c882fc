#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// Writes a C-ordered float32 array as .npy (format 1.0) through a temporary sibling, so that the final name never holds half of it.
void write_npy(const std::string & path, const std::vector<int64_t> & shape, const std::vector<float> & data);

} // namespace buoy
