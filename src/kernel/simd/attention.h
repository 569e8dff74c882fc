#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/floats.h"

#include <cmath>
#include <cstring>

// Attention of some queries over all keys, a tile of keys at a time with a running softmax (arXiv 1805.02867). Keys and values
// become floats in the tile, so the result is as exact as they are.

namespace buoy {

namespace {

// Eight values of a row from column i on.
struct FloatRow {
    static __m256 load8(const uint8_t * row, int64_t i) {
        return _mm256_loadu_ps(reinterpret_cast<const float *>(row) + i);
    }
};
struct HalfRow {
    static __m256 load8(const uint8_t * row, int64_t i) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row + 2 * i)));
    }
};
struct Q8Row {
    static __m256 load8(const uint8_t * row, int64_t i) {
        const uint8_t * block = row + i / 32 * 34;
        uint16_t        scale;
        std::memcpy(&scale, block, sizeof(scale));
        const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(block + 2 + i % 32));
        return _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(scale)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)));
    }
};

// Rows [0, n) -> [D, width], those that are missing are 0.
template <class Row>
void read_transposed(const KeyRows & rows, int64_t first, int64_t n, int64_t D, int64_t width, float * to) {
    for (int64_t key = 0; key < width; key += 8) {
        for (int64_t d = 0; d < D; d += 8) {
            __m256 v[8];
            for (int64_t i = 0; i < 8; i++) {
                const uint8_t * row = rows.data + static_cast<size_t>(first + key + i) * rows.stride;
                v[i]                = key + i < n ? Row::load8(row, d) : _mm256_setzero_ps();
            }
            transpose8(v);
            for (int64_t i = 0; i < 8; i++) {
                _mm256_storeu_ps(to + (d + i) * width + key, v[i]);
            }
        }
    }
}

// Rows [0, n) -> [n, width], columns beyond D are 0.
template <class Row>
void read_rows(const KeyRows & rows, int64_t first, int64_t n, int64_t D, int64_t width, float * to) {
    for (int64_t key = 0; key < n; key++, to += width) {
        const uint8_t * row = rows.data + static_cast<size_t>(first + key) * rows.stride;
        for (int64_t d = 0; d < width; d += 8) {
            _mm256_storeu_ps(to + d, d < D ? Row::load8(row, d) : _mm256_setzero_ps());
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
    __m256 most = _mm256_set1_ps(state.largest);
    for (int64_t i = 0; i < width; i += 8) {
        __m256 s = _mm256_loadu_ps(scores + i);
        if (mask != nullptr) {
            alignas(16) uint16_t tail[8] = {};
            const uint16_t *     from    = mask + i;
            if (i + 8 > n) {
                std::memcpy(tail, from, sizeof(uint16_t) * static_cast<size_t>(n > i ? n - i : 0));
                from = tail;
            }
            s = _mm256_add_ps(s, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
            _mm256_storeu_ps(scores + i, s);
        }
        most = _mm256_max_ps(s, most);
    }
    const float  largest = max8(most);
    const __m256 base    = _mm256_set1_ps(largest == -INFINITY ? 0.0f : largest);
    __m256       sum     = _mm256_setzero_ps();
    for (int64_t i = 0; i < width; i += 8) {
        const __m256 weight = exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + i), base));
        _mm256_storeu_ps(scores + i, weight);
        sum = _mm256_add_ps(sum, weight);
    }
    // mostly the largest is an earlier one; the exponential would be waited for
    const float factor =
        largest == state.largest ? 1.0f : _mm256_cvtss_f32(exp8(_mm256_sub_ps(_mm256_set1_ps(state.largest), base)));
    state = {largest, state.sum * factor + sum8(sum)};
    return factor;
}

inline void scale_row(const float * from, float factor, int64_t n, float * to) {
    for (int64_t i = 0; i < n; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_loadu_ps(from + i), _mm256_set1_ps(factor)));
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
    const __m256 scale = _mm256_set1_ps(state.sum == 0.0f ? 0.0f : factor / state.sum);
    int64_t      i     = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_fmadd_ps(_mm256_loadu_ps(scores + i), scale, _mm256_loadu_ps(to + i)));
    }
    for (; i < n; i++) {
        to[i] = std::fma(scores[i], _mm256_cvtss_f32(scale), to[i]);
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
