#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

// Indices as they are typed, "0,4-7,12-": first and last of each range, open_end where it goes on to the end. Empty: all.
using IndexRanges = std::vector<std::pair<int32_t, int32_t>>;

constexpr int32_t open_end = std::numeric_limits<int32_t>::max();

// "0,4-7", "8-", "all" or "*". Throws Error beginning with `where`.
IndexRanges parse_index_ranges(const std::string & where, const std::string & text);

// The indices below count, ascending, each once; empty where the ranges are all. Throws Error where one is not below count;
// what: "layer".
std::vector<int32_t> resolve_ranges(const std::string & where, const IndexRanges & ranges, const std::string & what,
                                    int32_t count);

} // namespace buoy
