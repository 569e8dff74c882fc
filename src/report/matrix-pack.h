#pragma once

#include "analysis/recording.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::report {

// One pattern as the page carries it: H matrices of Q rows, each row its largest value (float32, little-endian) and a byte for each
// of K keys, whose value is largest · (byte / 254)²; 255: no number. The square root spends the bytes on small values.
struct PackedMatrix {
    size_t               H = 0, Q = 0, K = 0;
    std::vector<int32_t> rows; // positions, or groups of pooled ones
    std::string          bytes;
};

// [Q, K] or [H, Q, K] of query rows at these positions. Without `heads` their mean; with pool > 1 rows become the mean, and keys the
// sum, of that many positions.
PackedMatrix pack_rows(analysis::Array pattern, const std::vector<int32_t> & rows, bool heads, size_t pool);

// [H, K], received attention.
PackedMatrix pack_received(analysis::Array received, bool heads, size_t pool);

// [R, R], as it is.
PackedMatrix pack_regions(const analysis::Array & sums);

} // namespace buoy::report
