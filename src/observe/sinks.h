#pragma once

#include <cstddef>
#include <vector>

namespace buoy {

// The columns above mean + epsilon · standard deviation (of the population) over all columns, ascending.
std::vector<size_t> columns_above(const std::vector<double> & columns, double epsilon);

} // namespace buoy
