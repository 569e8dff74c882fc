#pragma once

#include "buoy/recording.h"

#include <utility>
#include <vector>

namespace buoy::analysis {

// Where two ascending lists of positions have the same: indices into the one and the other.
std::vector<std::pair<size_t, size_t>> common_rows(const std::vector<int32_t> & a, const std::vector<int32_t> & b);

// The mean over the rows that both patterns [Q, K] have of half the sum of absolute differences; NaN without such rows.
double row_distance(const Array & a, const std::vector<int32_t> & rows_a, const Array & b,
                    const std::vector<int32_t> & rows_b);

} // namespace buoy::analysis
