#pragma once

#include "kernel/simd/formats.h"

namespace buoy {

namespace {

// −Σ of a row's 32 activations, or of one half of them.
template <int n_parts, int part> inline Ints start_of(const PackedBlock & x, int r) {
    const Ints whole = all_ints(x.start[r]);
    if constexpr (n_parts == 1) {
        return whole;
    } else {
        const Ints first = all_ints(x.start_first[r]);
        return part == 0 ? first : subtract_starts(whole, first);
    }
}

template <int n_parts, int part> inline Eight sum_of(const PackedBlock & x, int r) {
    if constexpr (n_parts == 1) {
        return spread_float(x.sum + r);
    } else {
        const float negative = -x.d[r];
        return times(to_floats(end_sums<1>(begin_sums<0>(start_of<n_parts, part>(x, r)))), spread_float(&negative));
    }
}

// Adds the products of some of a block's columns: those that share a scale. Blocks of several tiles share the loads of x.
template <int rows, int tiles, int part, class Block>
inline void multiply_part(const Block * const * w, const PackedBlock & x, Eight (*y)[rows]) {
    constexpr Coding coding = Block::coding;
    constexpr int    n      = 8 / coding.n_scales;
    Sums             sums[tiles][rows], low[tiles][rows];
    for (int r = 0; r < rows; r++) {
        const Ints start = start_of<coding.n_scales, part>(x, r);
        for (int t = 0; t < tiles; t++) {
            sums[t][r] = no_sums();
            low[t][r]  = no_sums();
            if constexpr (Block::offset != no_offset) {
                sums[t][r] = begin_sums<Block::offset>(start);
            }
        }
    }
#pragma GCC unroll 8
    for (int s = part * n; s < part * n + n; s++) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const Bytes four = spread_bytes(x.q[s][r]);
#pragma GCC unroll 2
            for (int t = 0; t < tiles; t++) {
                sums[t][r] = add_products(sums[t][r], load_bytes(w[t]->codes[0][s]), four);
                settle(sums[t][r]);
                if constexpr (Block::split) {
                    low[t][r] = add_products(low[t][r], load_bytes(w[t]->codes[1][s]), four);
                    settle(low[t][r]);
                }
            }
        }
    }
    for (int t = 0; t < tiles; t++) {
        const Eight d = load_eight(w[t]->d[part]);
        for (int r = 0; r < rows; r++) {
            Ints sum;
            if constexpr (Block::split) {
                sum = add_ints(end_sums<16>(sums[t][r]), end_sums<1>(low[t][r]));
            } else {
                sum = end_sums<1>(sums[t][r]);
            }
            y[t][r] = plus_product(y[t][r], to_floats(sum), times(d, spread_float(x.d + r)));
            if constexpr (coding.has_min) {
                y[t][r] = plus_product(y[t][r], load_eight(w[t]->m[part]), sum_of<coding.n_scales, part>(x, r));
            }
        }
    }
}

template <int rows, int tiles, class Block>
inline void multiply_block(const Block * const * w, const PackedBlock & x, Eight (*y)[rows]) {
    if constexpr (Block::split && tiles > 1) { // more sums than registers
        for (int t = 0; t < tiles; t++) {
            multiply_block<rows, 1>(w + t, x, y + t);
        }
    } else {
        multiply_part<rows, tiles, 0>(w, x, y);
        if constexpr (Block::coding.n_scales == 2) {
            multiply_part<rows, tiles, 1>(w, x, y);
        }
    }
}

// Of the first `rows` rows of a quad, n of which there are.
template <int rows, int tiles, class Block>
void multiply_rows(const WeightTile * const * from, const PackedBlock * x, int64_t n_blocks, bool start,
                   float * const * to, size_t stride, int64_t n) {
    Eight y[tiles][rows];
    for (int t = 0; t < tiles; t++) {
        for (int r = 0; r < rows; r++) {
            y[t][r] = start || r >= n ? no_floats() : load_eight(to[t] + static_cast<size_t>(r) * stride);
        }
    }
    for (int64_t i = 0; i < n_blocks; i++) {
        const Block * w[tiles];
        for (int t = 0; t < tiles; t++) {
            w[t] = reinterpret_cast<const Block *>(from[t]->bytes) + i;
        }
        multiply_block<rows, tiles>(w, x[i], y);
    }
    for (int t = 0; t < tiles; t++) {
        for (int r = 0; r < n; r++) {
            store_eight(to[t] + static_cast<size_t>(r) * stride, y[t][r]);
        }
    }
}

// A quad with fewer rows, the last one of a pass or of an expert, takes less time.
template <class Block, int tiles>
void multiply_tiles(const WeightTile * const * from, const PackedBlock * x, int64_t n_blocks, bool start,
                    float * const * to, size_t stride, int64_t n) {
    const auto run = n == 1   ? multiply_rows<1, tiles, Block>
                     : n == 2 ? multiply_rows<2, tiles, Block>
                              : multiply_rows<kernel_quad, tiles, Block>;
    run(from, x, n_blocks, start, to, stride, n);
}

template <class Block>
void multiply(const WeightTile & tile, const PackedBlock * x, int64_t n_blocks, bool start, float * y, size_t y_stride,
              int64_t n) {
    const WeightTile * tiles[] = {&tile};
    multiply_tiles<Block, 1>(tiles, x, n_blocks, start, &y, y_stride, n);
}

template <class Block>
void multiply_two(const WeightTile & a, const WeightTile & b, const PackedBlock * x, int64_t n_blocks, bool start,
                  float * ya, float * yb, size_t y_stride, int64_t n) {
    const WeightTile * tiles[] = {&a, &b};
    float *            to[]    = {ya, yb};
    multiply_tiles<Block, 2>(tiles, x, n_blocks, start, to, y_stride, n);
}

// One row of activations alone: it is multiplied with what was just decoded, and no tile is made.
template <class Format> void multiply_one(const WeightSpan & span, const PackedBlock * x, float * y) {
    using Block = TileBlock<Format>;
    Block blocks[Format::n_blocks];
    Eight sums[1][1] = {{no_floats()}};
    decode_span<Format>(
        span, [&](int64_t) { return blocks; },
        [&](int64_t at) {
            for (int64_t i = 0; i < Format::n_blocks; i++) {
                const Block * w[] = {blocks + i};
                multiply_block<1, 1>(w, x[at + i], sums);
            }
        });
    store_eight(y, sums[0][0]);
}

} // namespace

} // namespace buoy
