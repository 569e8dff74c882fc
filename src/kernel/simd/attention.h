#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/floats.h"

#include <cmath>
#include <cstring>

// Attention of some queries over all keys, a tile of keys at a time with a running softmax (arXiv 1805.02867). Keys and values
// become floats in the tile, so the result is as exact as they are.

namespace buoy {

namespace {

// A vector of values of a row from column i on, or its first n.
struct FloatRow {
    template <class... N> static Floats load(const uint8_t * row, int64_t i, N... n) {
        return load_floats(reinterpret_cast<const float *>(row) + i, n...);
    }
};
struct HalfRow {
    template <class... N> static Floats load(const uint8_t * row, int64_t i, N... n) {
        return load_halves(reinterpret_cast<const uint16_t *>(row) + i, n...);
    }
};
struct Q8Row {
    template <class... N> static Floats load(const uint8_t * row, int64_t i, N... n) {
        const uint8_t * block = row + i / 32 * 34;
        return broadcast(load_half(block)) * load_codes(reinterpret_cast<const int8_t *>(block + 2 + i % 32), n...);
    }
};

// The same of a row with D columns. D is a multiple of 8, so that only longer vectors need to ask.
template <class Row> inline Floats load_columns(const uint8_t * row, int64_t i, int64_t D) {
    if constexpr (lanes > 8) {
        if (i + lanes > D) {
            return Row::load(row, i, D - i);
        }
    }
    return Row::load(row, i);
}

// Rows [0, n) -> [D, width], those that are missing are 0.
template <class Row>
void read_transposed(const KeyRows & rows, int64_t first, int64_t n, int64_t D, int64_t width, float * to) {
    for (int64_t key = 0; key < width; key += lanes) {
        for (int64_t d = 0; d < D; d += lanes) {
            Floats v[lanes];
            for (int64_t i = 0; i < lanes; i++) {
                const uint8_t * row = rows.data + static_cast<size_t>(first + key + i) * rows.stride;
                v[i]                = key + i < n ? load_columns<Row>(row, d, D) : zeros();
            }
            transpose(v);
            for (int64_t i = 0; i < lanes && d + i < D; i++) {
                store_floats(to + (d + i) * width + key, v[i]);
            }
        }
    }
}

// Rows [0, n) -> [n, width], columns beyond D are 0.
template <class Row>
void read_rows(const KeyRows & rows, int64_t first, int64_t n, int64_t D, int64_t width, float * to) {
    for (int64_t key = 0; key < n; key++, to += width) {
        const uint8_t * row = rows.data + static_cast<size_t>(first + key) * rows.stride;
        for (int64_t d = 0; d < width; d += lanes) {
            store_floats(to + d, d < D ? load_columns<Row>(row, d, D) : zeros());
        }
    }
}

using ReadTile = void (*)(const KeyRows &, int64_t, int64_t, int64_t, int64_t, float *);

inline ReadTile transposed_reader(KeyType type) {
    return type == KeyType::f32   ? read_transposed<FloatRow>
           : type == KeyType::f16 ? read_transposed<HalfRow>
                                  : read_transposed<Q8Row>;
}

inline ReadTile row_reader(KeyType type) {
    return type == KeyType::f32 ? read_rows<FloatRow> : type == KeyType::f16 ? read_rows<HalfRow> : read_rows<Q8Row>;
}

// Is any of n halves open, that is not -inf?
inline bool any_open(const uint16_t * mask, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (mask[i] != 0xfc00) {
            return true;
        }
    }
    return false;
}

// Turns a tile's scores into weights and returns the factor that what was summed before has to be scaled by.
inline float soften(float * scores, int64_t n, int64_t width, const uint16_t * mask, RunningSum & state) {
    for (int64_t i = n; i < width; i++) {
        scores[i] = -INFINITY;
    }
    Floats most = broadcast(state.largest);
    for (int64_t i = 0; i < width; i += lanes) {
        Floats s = load_floats(scores + i);
        if (mask != nullptr && i < n) {
            s = s + (i + lanes <= n ? load_halves(mask + i) : load_halves(mask + i, n - i));
            store_floats(scores + i, s);
        }
        most = max(s, most);
    }
    const float  largest = lane_max(most);
    const Floats base    = broadcast(largest == -INFINITY ? 0.0f : largest);
    Floats       sum     = zeros();
    for (int64_t i = 0; i < width; i += lanes) {
        const Floats weight = exponential(load_floats(scores + i) - base);
        store_floats(scores + i, weight);
        sum = sum + weight;
    }
    // mostly the largest is an earlier one; the exponential would be waited for
    const float factor = largest == state.largest ? 1.0f : first_lane(exponential(broadcast(state.largest) - base));
    state              = {largest, state.sum * factor + lane_sum(sum)};
    return factor;
}

inline void scale_row(const float * from, float factor, int64_t n, float * to) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        store_floats(to + i, load_floats(from + i) * broadcast(factor));
    }
    if (i < n) {
        store_floats(to + i, load_floats(from + i, n - i) * broadcast(factor), n - i);
    }
}

struct KeyTile {
    int64_t first, n, width;
};

inline bool is_open(const AttentionWork & work, const KeyTile & tile) {
    bool open = work.mask[0] == nullptr;
    for (int64_t r = 0; r < work.n_rows && !open; r++) {
        open = any_open(work.mask[r] + tile.first, tile.n);
    }
    return open;
}

inline void attend_tile(const AttentionWork & work, const KeyTile & tile, AttentionState & state) {
    alignas(64) float keys[attention_floats], values[attention_floats], scores[attention_floats];
    const int64_t     D = work.head_dim, D16 = (D + 15) / 16 * 16;
    transposed_reader(work.k.type)(work.k, tile.first, tile.n, D, tile.width, keys);
    multiply_floats(state.queries, static_cast<size_t>(D), keys, D, static_cast<size_t>(tile.width), scores,
                    static_cast<size_t>(tile.width), false, work.n_rows);
    for (int64_t r = 0; r < work.n_rows; r++) {
        const uint16_t * mask   = work.mask[r] != nullptr ? work.mask[r] + tile.first : nullptr;
        const float      factor = soften(scores + r * tile.width, tile.n, tile.width, mask, state.sums[r]);
        if (factor != 1.0f) {
            scale_row(state.mixed + r * D16, factor, D16, state.mixed + r * D16);
        }
    }
    row_reader(work.v.type)(work.v, tile.first, tile.n, D, D16, values);
    multiply_floats(scores, static_cast<size_t>(tile.width), values, tile.n, static_cast<size_t>(D16), state.mixed,
                    static_cast<size_t>(D16), true, work.n_rows);
}

// A tile of keys for all of the work before the next one: the heads of a position lie side by side in memory.
void attend(const AttentionWork * works, AttentionState * states, int64_t n_works) {
    const int64_t D = works->head_dim, D16 = (D + 15) / 16 * 16, fit = attention_floats / D16 / 16 * 16;
    const int64_t width = fit < attention_rows_max ? fit : attention_rows_max;
    for (int64_t w = 0; w < n_works; w++) {
        for (int64_t r = 0; r < works[w].n_rows; r++) {
            scale_row(works[w].q[r], works[w].scale, D, states[w].queries + r * D);
            states[w].sums[r] = {-INFINITY, 0.0f};
        }
        std::memset(states[w].mixed, 0, sizeof(float) * static_cast<size_t>(works[w].n_rows * D16));
    }
    for (int64_t first = 0; first < works->n_keys; first += width) {
        const KeyTile tile = {first, works->n_keys - first < width ? works->n_keys - first : width, width};
        for (int64_t w = 0; w < n_works; w++) {
            if (is_open(works[w], tile)) {
                attend_tile(works[w], tile, states[w]);
            }
        }
    }
    for (int64_t w = 0; w < n_works; w++) {
        for (int64_t r = 0; r < works[w].n_rows; r++) { // a row that sees nothing is 0
            const float sum = states[w].sums[r].sum;
            scale_row(states[w].mixed + r * D16, sum == 0.0f ? 0.0f : 1.0f / sum, D, works[w].out[r]);
        }
    }
}

// A row of scores, -inf beyond n, becomes weights and is added to what is there.
inline void add_weights(float * scores, int64_t n, int64_t width, const uint16_t * mask, float factor, float * to) {
    RunningSum state = {-INFINITY, 0.0f};
    soften(scores, n, width, mask, state);
    const Floats scale = broadcast(state.sum == 0.0f ? 0.0f : factor / state.sum);
    int64_t      i     = 0;
    for (; i + lanes <= n; i += lanes) {
        store_floats(to + i, multiply_add(load_floats(scores + i), scale, load_floats(to + i)));
    }
    if (i < n) {
        store_floats(to + i, multiply_add(load_floats(scores + i), scale, load_floats(to + i, n - i)), n - i);
    }
}

void weigh(const AttentionWork & work, float factor, AttentionState & state, float * room) {
    alignas(64) float keys[attention_floats];
    const int64_t     D = work.head_dim, fit = attention_floats / D / 16 * 16;
    const int64_t     width  = fit < attention_rows_max ? fit : attention_rows_max;
    const int64_t     stride = (work.n_keys + width - 1) / width * width;
    for (int64_t r = 0; r < work.n_rows; r++) {
        scale_row(work.q[r], work.scale, D, state.queries + r * D);
    }
    for (int64_t first = 0; first < work.n_keys; first += width) {
        const KeyTile tile = {first, work.n_keys - first < width ? work.n_keys - first : width, width};
        if (is_open(work, tile)) {
            transposed_reader(work.k.type)(work.k, tile.first, tile.n, D, width, keys);
            multiply_floats(state.queries, static_cast<size_t>(D), keys, D, static_cast<size_t>(width), room + first,
                            static_cast<size_t>(stride), false, work.n_rows);
            continue;
        }
        for (int64_t r = 0; r < work.n_rows; r++) {
            std::memset(room + r * stride + first, 0,
                        sizeof(float) * static_cast<size_t>(width)); // the mask closes them
        }
    }
    for (int64_t r = 0; r < work.n_rows; r++) {
        add_weights(room + r * stride, work.n_keys, stride, work.mask[r], factor, work.out[r]);
    }
}

} // namespace

} // namespace buoy
