#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace buoy::figure {

enum class SparkStyle { blocks, ascii };

// One character per value, higher for larger ones between 0 and the largest; a space where there is no value. More values than
// width_max: each character shows the largest of its share.
std::string sparkline(const std::vector<double> & values, size_t width_max = 64, SparkStyle style = SparkStyle::blocks);

} // namespace buoy::figure
