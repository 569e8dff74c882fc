#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace buoy {

namespace {

// e^x within 2 units in the last place; 0 below the smallest normal number, NaN stays.
inline __m256 exp8(__m256 x) {
    const __m256 least = _mm256_set1_ps(-87.0f);
    const __m256 zero  = _mm256_cmp_ps(x, least, _CMP_LT_OQ);
    x                  = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(least, x));
    const __m256 n     = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT);
    __m256       r     = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x); // ln 2 in two parts
    r                  = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    // Taylor's series to r^7 / 7!, |r| ≤ ln 2 / 2
    constexpr float series[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
    __m256          y        = _mm256_set1_ps(1.0f / 5040.0f);
    for (const float c : series) {
        y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(c));
    }
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(zero, _mm256_mul_ps(y, _mm256_castsi256_ps(power)));
}

inline float sum8(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s        = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline float max8(__m256 v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m        = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// c = a·b or c + a·b for R rows of a; b is [depth, width], width a multiple of 16.
template <int R>
inline void multiply_floats(const float * a, size_t a_stride, const float * b, int64_t depth, size_t width, float * c,
                            size_t c_stride, bool add) {
    for (size_t at = 0; at < width; at += 16) {
        __m256 sums[R][2];
        for (int r = 0; r < R; r++) {
            for (size_t i = 0; i < 2; i++) {
                sums[r][i] =
                    add ? _mm256_loadu_ps(c + static_cast<size_t>(r) * c_stride + at + 8 * i) : _mm256_setzero_ps();
            }
        }
        const float * column = b + at;
        for (int64_t k = 0; k < depth; k++, column += width) {
            const __m256 b0 = _mm256_loadu_ps(column), b1 = _mm256_loadu_ps(column + 8);
            for (int r = 0; r < R; r++) {
                const __m256 v = _mm256_broadcast_ss(a + static_cast<size_t>(r) * a_stride + k);
                sums[r][0]     = _mm256_fmadd_ps(v, b0, sums[r][0]);
                sums[r][1]     = _mm256_fmadd_ps(v, b1, sums[r][1]);
            }
        }
        for (int r = 0; r < R; r++) {
            for (size_t i = 0; i < 2; i++) {
                _mm256_storeu_ps(c + static_cast<size_t>(r) * c_stride + at + 8 * i, sums[r][i]);
            }
        }
    }
}

// Any number of rows, in groups of nearly the same size: six fill the registers.
void multiply_floats(const float * a, size_t a_stride, const float * b, int64_t depth, size_t width, float * c,
                     size_t c_stride, bool add, int64_t n_rows) {
    using Part             = void (*)(const float *, size_t, const float *, int64_t, size_t, float *, size_t, bool);
    constexpr Part parts[] = {multiply_floats<1>, multiply_floats<2>, multiply_floats<3>,
                              multiply_floats<4>, multiply_floats<5>, multiply_floats<6>};
    const int64_t  n_parts = (n_rows + 5) / 6;
    for (int64_t i = 0; i < n_parts; i++) {
        const int64_t first = n_rows * i / n_parts, n = n_rows * (i + 1) / n_parts - first;
        parts[n - 1](a + static_cast<size_t>(first) * a_stride, a_stride, b, depth, width,
                     c + static_cast<size_t>(first) * c_stride, c_stride, add);
    }
}

inline void transpose8(__m256 * v) {
    __m256 a[8];
    for (int i = 0; i < 8; i += 2) {
        a[i]     = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    __m256 b[8];
    for (int i = 0; i < 8; i += 4) {
        b[i]     = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v[i]     = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

} // namespace

} // namespace buoy
