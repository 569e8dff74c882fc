#pragma once

#include "kernel/avx2/matmul.h"

namespace buoy {

namespace {

struct Sums {
    __m256i row[kernel_quad];
};

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)

// vpdpbusd makes one 32-bit sum for each row at once. The numbers are the same: the 16-bit sums never overflow.
inline __m256i begin(const int16_t * start) { return _mm256_madd_epi16(load(start), _mm256_set1_epi16(1)); }
inline __m256i begin(const int32_t * start) { return load(start); }

inline __m256i add_products(__m256i sums, __m256i x, __m256i weights) { return _mm256_dpbusd_epi32(sums, x, weights); }

inline __m256i end(__m256i sums, int factor) { return _mm256_slli_epi32(sums, factor == 16 ? 4 : 0); }

#else

inline __m256i begin(const int16_t * start) { return load(start); }

inline __m256i add_products(__m256i sums, __m256i x, __m256i weights) {
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(x, weights));
}

inline __m256i end(__m256i sums, int factor) {
    return _mm256_madd_epi16(sums, _mm256_set1_epi16(static_cast<int16_t>(factor)));
}

#endif

// sums += steps [first, last) of a block's columns, for four rows of activations.
template <int first, int last> inline void add_columns(const int8_t (*w)[32], const PackedBlock & x, Sums & sums) {
#pragma GCC                                unroll 8
    for (int s = first; s < last; s++) {
                                       const __m256i weights = load(w[s]);
#pragma GCC unroll 4
        for (int r = 0; r < kernel_quad; r++) {
            sums.row[r] = add_products(sums.row[r], spread(x.q[s][r]), weights);
            settle(sums.row[r]);
        }
    }
}

template <int first, int last, typename Start>
inline Sums sum_columns(const int8_t (*w)[32], const Start * start, const PackedBlock & x) {
    Sums sums;
    for (__m256i & row : sums.row) {
        row = begin(start);
    }
    add_columns<first, last>(w, x, sums);
    return sums;
}

// The same of two blocks of weights, which share the loads of x: those are the limit, not the products.
template <class Codes>
inline void sum_both(const Codes & a, const Codes & b, const PackedBlock & x, Sums & of_a, Sums & of_b) {
    for (int r = 0; r < kernel_quad; r++) {
        of_a.row[r] = begin(a.start);
        of_b.row[r] = begin(b.start);
    }
#pragma GCC unroll 8
    for (int s = 0; s < 8; s++) {
        const __m256i first = load(a.w[s]), second = load(b.w[s]);
#pragma GCC unroll 4
        for (int r = 0; r < kernel_quad; r++) {
            const __m256i four = spread(x.q[s][r]);
            of_a.row[r]        = add_products(of_a.row[r], four, first);
            of_b.row[r]        = add_products(of_b.row[r], four, second);
            settle(of_a.row[r]);
            settle(of_b.row[r]);
        }
    }
}

inline __m256 scaled(__m256i sums, const float * d, const PackedBlock & x, int r, __m256 y) {
    const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(d), _mm256_broadcast_ss(x.d + r));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), scale, y);
}

// Blocks whose 32 columns share a scale.
template <class Block> inline void add_sums(const Block & w, const Sums & sums, const PackedBlock & x, __m256 * y) {
    for (int r = 0; r < kernel_quad; r++) {
        y[r] = scaled(end(sums.row[r], 1), w.d, x, r, y[r]);
    }
}

inline void add_sums(const ShiftedBlock & w, const Sums & sums, const PackedBlock & x, __m256 * y) {
    for (int r = 0; r < kernel_quad; r++) {
        y[r] = scaled(end(sums.row[r], 1), w.d, x, r, y[r]);
        y[r] = _mm256_fmadd_ps(_mm256_loadu_ps(w.m), _mm256_broadcast_ss(x.sum + r), y[r]);
    }
}

template <class Block> inline void multiply_block(const Block & w, const PackedBlock & x, __m256 * y) {
    add_sums(w, sum_columns<0, 8>(w.codes.w, w.codes.start, x), x, y);
}

inline void multiply_block(const HalvesBlock & w, const PackedBlock & x, __m256 * y) {
    const Sums first = sum_columns<0, 4>(w.w, w.start[0], x);
    for (int r = 0; r < kernel_quad; r++) {
        y[r] = scaled(end(first.row[r], 1), w.d[0], x, r, y[r]);
    }
    const Sums second = sum_columns<4, 8>(w.w, w.start[1], x);
    for (int r = 0; r < kernel_quad; r++) {
        y[r] = scaled(end(second.row[r], 1), w.d[1], x, r, y[r]);
    }
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)

inline void multiply_block(const WideBlock & w, const PackedBlock & x, __m256 * y) {
    add_sums(w, sum_columns<0, 8>(w.w, w.start, x), x, y);
}

#else

inline void multiply_block(const WideBlock & w, const PackedBlock & x, __m256 * y) {
    const Sums high = sum_columns<0, 8>(w.high.w, w.high.start, x);
    __m256i    sums[kernel_quad];
    for (int r = 0; r < kernel_quad; r++) {
        sums[r] = end(high.row[r], 16);
    }
    const Sums low = sum_columns<0, 8>(w.low.w, w.low.start, x);
    for (int r = 0; r < kernel_quad; r++) {
        y[r] = scaled(_mm256_add_epi32(sums[r], end(low.row[r], 1)), w.d, x, r, y[r]);
    }
}

#endif

template <class Block> inline const auto & codes_of(const Block & block) {
    if constexpr (requires { block.codes; }) {
        return block.codes;
    } else {
        return block;
    }
}

template <class Block>
inline void multiply_blocks(const Block & a, const Block & b, const PackedBlock & x, __m256 * ya, __m256 * yb) {
    if constexpr (requires { begin(codes_of(a).start); }) { // all 32 columns in one sum
        Sums of_a, of_b;
        sum_both(codes_of(a), codes_of(b), x, of_a, of_b);
        add_sums(a, of_a, x, ya);
        add_sums(b, of_b, x, yb);
    } else {
        multiply_block(a, x, ya);
        multiply_block(b, x, yb);
    }
}

// Four rows of eight results, the first n of which there are.
inline void load_results(const float * y, size_t stride, bool start, int64_t n, __m256 * sums) {
    for (int r = 0; r < kernel_quad; r++) {
        sums[r] = start || r >= n ? _mm256_setzero_ps() : _mm256_loadu_ps(y + static_cast<size_t>(r) * stride);
    }
}

inline void store_results(const __m256 * sums, float * y, size_t stride, int64_t n) {
    for (int r = 0; r < n; r++) {
        _mm256_storeu_ps(y + static_cast<size_t>(r) * stride, sums[r]);
    }
}

template <class Block>
void multiply(const WeightTile & tile, const PackedBlock * x, int64_t n_blocks, bool start, float * y, size_t y_stride,
              int64_t n) {
    const Block * w = reinterpret_cast<const Block *>(tile.bytes);
    __m256        sums[kernel_quad];
    load_results(y, y_stride, start, n, sums);
    for (int64_t i = 0; i < n_blocks; i++) {
        multiply_block(w[i], x[i], sums);
    }
    store_results(sums, y, y_stride, n);
}

template <class Block>
void multiply_two(const WeightTile & a, const WeightTile & b, const PackedBlock * x, int64_t n_blocks, bool start,
                  float * ya, float * yb, size_t y_stride, int64_t n) {
    const Block * wa = reinterpret_cast<const Block *>(a.bytes);
    const Block * wb = reinterpret_cast<const Block *>(b.bytes);
    __m256        of_a[kernel_quad], of_b[kernel_quad];
    load_results(ya, y_stride, start, n, of_a);
    load_results(yb, y_stride, start, n, of_b);
    for (int64_t i = 0; i < n_blocks; i++) {
        multiply_blocks(wa[i], wb[i], x[i], of_a, of_b);
    }
    store_results(of_a, ya, y_stride, n);
    store_results(of_b, yb, y_stride, n);
}

} // namespace

} // namespace buoy
