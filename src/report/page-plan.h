#pragma once

#include "buoy/record.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace buoy::report {

// What a recording holds of its pattern.
struct PageShape {
    TapReduce            reduce      = TapReduce::heads;
    size_t               n_heads     = 1; // of a pattern that is not reduced to their mean
    size_t               n_positions = 0; // T
    size_t               n_regions   = 0;
    std::vector<int32_t> steps;  // those with query rows
    std::vector<size_t>  n_rows; // of each
    std::vector<int32_t> layers;
};

// What of it goes into a page.
struct PagePlan {
    bool                 heads = true; // each of them, else their mean
    std::vector<int32_t> steps;
    std::vector<int32_t> layers;
    size_t               pool = 1; // positions that become one
    uint64_t             size = 0; // bytes, an upper bound
};

// A row of a matrix is its largest value and one byte for each key.
constexpr size_t row_head_size = 4;

// The most that fits into that many bytes: first the heads are averaged, then steps and layers are thinned, then positions pooled.
PagePlan plan_page(const PageShape & shape, uint64_t size_max);

} // namespace buoy::report
