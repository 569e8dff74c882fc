#pragma once

#include "kernel/simd/matmul.h"

namespace buoy {

namespace {

// Of what is not negative, bit patterns order as the numbers do, and NaN lies above them all: it is not lost.
inline float largest(__m256i v) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m         = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m         = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

// 32 values of one row.
inline void pack_row(const float * x, PackedBlock & to, int r) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256       v[4];
    __m256i      most = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_epi32(most, _mm256_castps_si256(_mm256_andnot_ps(sign, v[i])));
    }
    const float  top     = largest(most);
    const __m256 inverse = _mm256_set1_ps(top > 0.0f ? 127.0f / top : 0.0f);
    const float  d       = top / 127.0f;
    __m256i      q[4];
    __m256i      sum = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        sum  = _mm256_add_epi32(sum, q[i]);
    }
    // packing works within halves of a register: [0 2 4 6 | 1 3 5 7] in groups of four
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes         = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    alignas(32) uint8_t flat[32];
    store(flat, _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(128))));
    for (int s = 0; s < 8; s++) {
        std::memcpy(to.q[s][r], flat + 4 * s, 4);
    }
    __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    total         = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
    total         = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
    to.d[r]       = d;
    to.sum[r]     = d * static_cast<float>(_mm_cvtsi128_si32(total));
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
