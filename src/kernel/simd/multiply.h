#pragma once

#include "kernel/simd/matmul.h"

namespace buoy {

namespace {

// Of the first `rows` rows of a quad of activations.
template <int rows> struct Sums { __m256i row[rows]; };

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

// Steps [first, last) of a block's columns, eight to a block.
template <int rows, int first, int last, typename Start>
inline Sums<rows> sum_columns(const int8_t (*w)[32], const Start * start, const PackedBlock & x) {
    Sums<rows> sums;
    for (__m256i & row : sums.row) {
        row = begin(start);
    }
#pragma GCC unroll 8
    for (int s = first; s < last; s++) {
        const __m256i weights = load(w[s]);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            sums.row[r] = add_products(sums.row[r], spread(x.q[s][r]), weights);
            settle(sums.row[r]);
        }
    }
    return sums;
}

// The same of two blocks of weights, which share the loads of x: those are the limit, not the products.
template <int rows, class Codes>
inline void sum_both(const Codes & a, const Codes & b, const PackedBlock & x, Sums<rows> & of_a, Sums<rows> & of_b) {
    for (int r = 0; r < rows; r++) {
        of_a.row[r] = begin(a.start);
        of_b.row[r] = begin(b.start);
    }
#pragma GCC unroll 8
    for (int s = 0; s < 8; s++) {
        const __m256i first = load(a.w[s]), second = load(b.w[s]);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
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
template <int rows, class Block>
inline void add_sums(const Block & w, const Sums<rows> & sums, const PackedBlock & x, __m256 * y) {
    for (int r = 0; r < rows; r++) {
        y[r] = scaled(end(sums.row[r], 1), w.d, x, r, y[r]);
        if constexpr (requires { w.m; }) {
            y[r] = _mm256_fmadd_ps(_mm256_loadu_ps(w.m), _mm256_broadcast_ss(x.sum + r), y[r]);
        }
    }
}

template <class Block> inline const auto & codes_of(const Block & block) {
    if constexpr (requires { block.codes; }) {
        return block.codes;
    } else {
        return block;
    }
}

template <class Block> constexpr bool has_one_sum = requires(const Block & w) { begin(codes_of(w).start); };

template <int rows, class Block> inline void multiply_block(const Block & w, const PackedBlock & x, __m256 * y) {
    if constexpr (has_one_sum<Block>) {
        add_sums<rows>(w, sum_columns<rows, 0, 8>(codes_of(w).w, codes_of(w).start, x), x, y);
    } else if constexpr (requires { w.high; }) {
        const Sums<rows> high = sum_columns<rows, 0, 8>(w.high.w, w.high.start, x);
        __m256i          sums[rows];
        for (int r = 0; r < rows; r++) {
            sums[r] = end(high.row[r], 16);
        }
        const Sums<rows> low = sum_columns<rows, 0, 8>(w.low.w, w.low.start, x);
        for (int r = 0; r < rows; r++) {
            y[r] = scaled(_mm256_add_epi32(sums[r], end(low.row[r], 1)), w.d, x, r, y[r]);
        }
    } else { // two halves with a scale each
        const Sums<rows> first = sum_columns<rows, 0, 4>(w.w, w.start[0], x);
        for (int r = 0; r < rows; r++) {
            y[r] = scaled(end(first.row[r], 1), w.d[0], x, r, y[r]);
        }
        const Sums<rows> second = sum_columns<rows, 4, 8>(w.w, w.start[1], x);
        for (int r = 0; r < rows; r++) {
            y[r] = scaled(end(second.row[r], 1), w.d[1], x, r, y[r]);
        }
    }
}

template <int rows, class Block>
inline void multiply_blocks(const Block & a, const Block & b, const PackedBlock & x, __m256 * ya, __m256 * yb) {
    if constexpr (has_one_sum<Block>) {
        Sums<rows> of_a, of_b;
        sum_both<rows>(codes_of(a), codes_of(b), x, of_a, of_b);
        add_sums<rows>(a, of_a, x, ya);
        add_sums<rows>(b, of_b, x, yb);
    } else {
        multiply_block<rows>(a, x, ya);
        multiply_block<rows>(b, x, yb);
    }
}

// Rows of eight results, the first n of which there are.
template <int rows> inline void load_results(const float * y, size_t stride, bool start, int64_t n, __m256 * sums) {
    for (int r = 0; r < rows; r++) {
        sums[r] = start || r >= n ? _mm256_setzero_ps() : _mm256_loadu_ps(y + static_cast<size_t>(r) * stride);
    }
}

inline void store_results(const __m256 * sums, float * y, size_t stride, int64_t n) {
    for (int r = 0; r < n; r++) {
        _mm256_storeu_ps(y + static_cast<size_t>(r) * stride, sums[r]);
    }
}

template <int rows, class Block>
void multiply_rows(const WeightTile & tile, const PackedBlock * x, int64_t n_blocks, bool start, float * y,
                   size_t y_stride, int64_t n) {
    const Block * w = reinterpret_cast<const Block *>(tile.bytes);
    __m256        sums[rows];
    load_results<rows>(y, y_stride, start, n, sums);
    for (int64_t i = 0; i < n_blocks; i++) {
        multiply_block<rows>(w[i], x[i], sums);
    }
    store_results(sums, y, y_stride, n);
}

template <int rows, class Block>
void multiply_rows_two(const WeightTile & a, const WeightTile & b, const PackedBlock * x, int64_t n_blocks, bool start,
                       float * ya, float * yb, size_t y_stride, int64_t n) {
    const Block * wa = reinterpret_cast<const Block *>(a.bytes);
    const Block * wb = reinterpret_cast<const Block *>(b.bytes);
    __m256        of_a[rows], of_b[rows];
    load_results<rows>(ya, y_stride, start, n, of_a);
    load_results<rows>(yb, y_stride, start, n, of_b);
    for (int64_t i = 0; i < n_blocks; i++) {
        multiply_blocks<rows>(wa[i], wb[i], x[i], of_a, of_b);
    }
    store_results(of_a, ya, y_stride, n);
    store_results(of_b, yb, y_stride, n);
}

// A quad with fewer rows, the last one of a pass or of an expert, takes less time.
template <class Block>
void multiply(const WeightTile & tile, const PackedBlock * x, int64_t n_blocks, bool start, float * y, size_t y_stride,
              int64_t n) {
    const auto run = n == 1   ? multiply_rows<1, Block>
                     : n == 2 ? multiply_rows<2, Block>
                              : multiply_rows<kernel_quad, Block>;
    run(tile, x, n_blocks, start, y, y_stride, n);
}

template <class Block>
void multiply_two(const WeightTile & a, const WeightTile & b, const PackedBlock * x, int64_t n_blocks, bool start,
                  float * ya, float * yb, size_t y_stride, int64_t n) {
    const auto run = n == 1   ? multiply_rows_two<1, Block>
                     : n == 2 ? multiply_rows_two<2, Block>
                              : multiply_rows_two<kernel_quad, Block>;
    run(a, b, x, n_blocks, start, ya, yb, y_stride, n);
}

} // namespace

} // namespace buoy
