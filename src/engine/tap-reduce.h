#pragma once

#include "buoy/context.h"

#include <array>
#include <vector>

namespace buoy {

struct ReducedTap {
    std::array<int64_t, 3> shape{};
    std::vector<float>     data;
};

// The selected part of a pattern or of scores [H, T, K] on the host, reduced. Row t is the query at position row_first + t,
// column k the key at position key_first + k.
ReducedTap reduce_tap(const float * data, const std::array<int64_t, 3> & shape, TapReduce reduce,
                      const TapSelection & selection, int32_t row_first, int32_t key_first);

} // namespace buoy
