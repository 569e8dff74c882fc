#pragma once

#include "kernel/simd/tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace buoy {

namespace {

// 32 values of one row. Plain loops: compilers turn them into vector instructions.
inline void pack_row(const float * x, PackedBlock & to, int r) {
    // of what is not negative, bit patterns order as the numbers do, and NaN lies above them all: it is not lost
    uint32_t most = 0;
    for (int i = 0; i < kernel_block; i++) {
        most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7fffffff);
    }
    const auto      top     = std::bit_cast<float>(most);
    const float     inverse = top > 0.0f ? 127.0f / top : 0.0f;
    constexpr float round   = 12582912.0f; // 1.5·2^23: adding it rounds to the nearest whole number, ties to even
    int32_t         q[kernel_block];
    for (int i = 0; i < kernel_block; i++) {
        q[i] = std::bit_cast<int32_t>(x[i] * inverse + round) - std::bit_cast<int32_t>(round);
    }
    int8_t  bytes[kernel_block];
    int32_t sums[2][4] = {}; // of each half, by column modulo 4
    for (int i = 0; i < kernel_block; i++) {
        bytes[i] = static_cast<int8_t>(q[i]);
        sums[i / 16][i % 4] += bytes[i];
    }
    const int32_t even[] = {sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]};
    const int32_t odd[]  = {sums[0][2] + sums[0][3], sums[1][2] + sums[1][3]};
    for (int s = 0; s < kernel_block / 4; s++) {
        std::memcpy(to.q[s][r], bytes + 4 * s, 4);
    }
    to.d[r]           = top / 127.0f;
    to.sum[r]         = to.d[r] * static_cast<float>(even[0] + odd[0] + even[1] + odd[1]);
    to.start[r]       = start_from(even[0] + even[1], odd[0] + odd[1]);
    to.start_first[r] = start_from(even[0], odd[0]);
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
