#pragma once

#include "kernel/simd/tiles.h"

#include <bit>
#include <cstring>

namespace buoy {

namespace {

// 32 values of one row.
inline void pack_row(const float * x, PackedBlock & to, int r) {
    const auto  top = std::bit_cast<float>(largest_bits(x)); // NaN is not lost: it becomes the scale
    const Bytes q   = round_to_bytes(x, top > 0.0f ? 127.0f / top : 0.0f);
    int8_t      bytes[kernel_block];
    store_bytes(bytes, q);
    for (int s = 0; s < kernel_block / 4; s++) {
        std::memcpy(to.q[s][r], bytes + 4 * s, 4);
    }
    const PairSums sums = sum_pairs(q);
    const int32_t  even = sums.even[0] + sums.even[1], odd = sums.odd[0] + sums.odd[1];
    to.d[r]           = top / 127.0f;
    to.sum[r]         = to.d[r] * static_cast<float>(even + odd);
    to.start[r]       = start_from(even, odd);
    to.start_first[r] = start_from(sums.even[0], sums.odd[0]);
}

void pack(const float * const * rows, int64_t n, int64_t n_blocks, PackedBlock * to) {
    for (int64_t i = 0; i < n_blocks; i++) {
        if (n < kernel_quad) {
            std::memset(&to[i], 0, sizeof(PackedBlock)); // rows that are not there: a scale of 0
        }
        for (int64_t r = 0; r < n; r++) {
            pack_row(rows[r] + i * kernel_block, to[i], static_cast<int>(r));
        }
    }
}

} // namespace

} // namespace buoy
