#include "engine/tap-reduce.h"

#include "engine/request-check.h"

#include <algorithm>
#include <numeric>

namespace buoy {

namespace {

// The regions that each of n positions from the first on belongs to.
std::vector<std::vector<size_t>> regions_by_index(const std::vector<std::vector<int32_t>> & regions, int32_t first,
                                                  int64_t n) {
    std::vector<std::vector<size_t>> found(static_cast<size_t>(n));
    for (size_t r = 0; r < regions.size(); r++) {
        for (const int32_t position : regions[r]) {
            const int64_t index = static_cast<int64_t>(position) - first;
            if (index < 0 || index >= n) {
                continue;
            }
            std::vector<size_t> & there = found[static_cast<size_t>(index)];
            if (there.empty() || there.back() != r) { // a region may name a position twice
                there.push_back(r);
            }
        }
    }
    return found;
}

} // namespace

ReducedTap reduce_tap(const float * data, const std::array<int64_t, 3> & shape, TapReduce reduce,
                      const TapSelection & selection, int32_t row_first, int32_t key_first) {
    const std::vector<int32_t> heads = all_if_empty(selection.heads, shape[0]);
    const std::vector<int32_t> rows  = all_if_empty(selection.rows, shape[1]);
    const size_t               H = heads.size(), T = rows.size(), R = selection.regions.size();
    const auto                 K       = static_cast<size_t>(shape[2]);
    const bool                 regions = reduce == TapReduce::regions;

    const auto key_regions = regions_by_index(selection.regions, key_first, regions ? shape[2] : 0);
    const auto row_regions = regions_by_index(selection.regions, row_first, regions ? shape[1] : 0);

    const bool          by_head = reduce == TapReduce::none || reduce == TapReduce::received;
    const size_t        outer   = by_head ? H : 1;
    const size_t        middle  = reduce == TapReduce::received ? 1 : regions ? R : T;
    const size_t        inner   = regions ? R : K;
    const double        n       = reduce == TapReduce::none ? 1.0 : static_cast<double>(by_head ? T : H);
    std::vector<double> sums(outer * middle * inner);
    for (size_t h = 0; h < H; h++) {
        for (size_t t = 0; t < T; t++) {
            const float * from = data + (heads[h] * shape[1] + rows[t]) * shape[2];
            if (!regions) {
                double * to = sums.data() + ((by_head ? h : 0) * middle + (middle == 1 ? 0 : t)) * inner;
                for (size_t k = 0; k < K; k++) {
                    to[k] += static_cast<double>(from[k]);
                }
                continue;
            }
            for (const size_t of_row : row_regions[static_cast<size_t>(rows[t])]) {
                for (size_t k = 0; k < K; k++) {
                    for (const size_t of_key : key_regions[k]) {
                        sums[of_row * R + of_key] += static_cast<double>(from[k]);
                    }
                }
            }
        }
    }
    ReducedTap reduced;
    reduced.shape = {static_cast<int64_t>(outer), static_cast<int64_t>(middle), static_cast<int64_t>(inner)};
    reduced.data.reserve(sums.size());
    for (const double sum : sums) {
        reduced.data.push_back(static_cast<float>(sum / n));
    }
    return reduced;
}

} // namespace buoy
