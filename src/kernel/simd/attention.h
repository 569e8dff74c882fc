#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/floats.h"

#include <cfloat>
#include <cmath>
#include <cstring>

// Attention of some queries over all keys, a tile of keys at a time with a running softmax (arXiv 1805.02867). Keys and values
// become floats, so the result is as exact as they are.
//
// The lanes of a vector belong to different rows, so nothing has to be transposed, and softmax works on all rows at once. With
// fewer rows than lanes each row has several lanes, which share its columns: `parts` of them.

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

// Calls f with the row type of these keys or values.
template <class F> inline void with_row_type(KeyType type, F f) {
    switch (type) {
        case KeyType::f32: return f(FloatRow());
        case KeyType::f16: return f(HalfRow());
        case KeyType::q8_0: return f(Q8Row());
    }
}

constexpr int64_t chunk = 16; // columns that lie together in a tile

constexpr float log2_e = 1.44269504f; // scores are in units of ln 2: 2^x is simpler than e^x

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct KeyTile {
    int64_t first, n, width; // n of them are there
};

// A chunk of columns as floats, the first n of which there are.
template <class Row> inline void read_chunk(const uint8_t * row, int64_t d, int64_t n, float * to) {
    for (int64_t i = 0; i < chunk; i += lanes) {
        store_floats(to + i, i + lanes <= n ? Row::load(row, d + i) : i < n ? Row::load(row, d + i, n - i) : zeros());
    }
}

// A tile of rows as floats, `to_chunk` and `to_row` apart; columns that are missing are 0.
template <class Row>
inline void read_tile(const KeyRows & rows, const KeyTile & tile, int64_t D, int64_t to_chunk, int64_t to_row,
                      float * to) {
    const uint8_t * row = rows.data + static_cast<size_t>(tile.first) * rows.stride;
    for (int64_t i = 0; i < tile.n; i++, row += rows.stride) {
        float * at = to + i * to_row;
        int64_t d  = 0;
        for (; d + chunk <= D; d += chunk, at += to_chunk) {
            read_chunk<Row>(row, d, chunk, at);
        }
        if (d < D) {
            read_chunk<Row>(row, d, D - d, at);
        }
    }
}

// Keys lie chunk by chunk, so that a product finds all it needs a fixed distance apart: [D / 16, width, 16]. Those that are
// missing are 0.
inline void read_keys(const AttentionWork & work, const KeyTile & tile, float * to) {
    with_row_type(work.k.type,
                  [&]<class Row>(Row) { read_tile<Row>(work.k, tile, work.head_dim, chunk * tile.width, chunk, to); });
    for (int64_t d = 0; tile.n < tile.width && d < work.head_dim; d += chunk, to += chunk * tile.width) {
        std::memset(to + tile.n * chunk, 0, sizeof(float) * static_cast<size_t>((tile.width - tile.n) * chunk));
    }
}

// [n, D rounded up]
inline void read_values(const AttentionWork & work, const KeyTile & tile, float * to) {
    with_row_type(work.v.type, [&]<class Row>(Row) {
        read_tile<Row>(work.v, tile, work.head_dim, chunk, round_up(work.head_dim, chunk), to);
    });
}

// Queries times scale, group by group of `rows` rows: [D / parts, rows, parts].
template <int64_t rows> void read_queries(const AttentionWork & work, float * to) {
    constexpr int64_t parts = lanes / rows;
    const int64_t     D = work.head_dim, D16 = round_up(D, chunk), n_rows = round_up(work.n_rows, rows);
    std::memset(to, 0, sizeof(float) * static_cast<size_t>(n_rows * D16));
    for (int64_t r = 0; r < work.n_rows; r++) {
        float * group = to + r / rows * rows * D16 + r % rows * parts;
        for (int64_t d = 0; d < D; d++) {
            group[d / parts * lanes + d % parts] = work.q[r][d] * (work.scale * log2_e);
        }
    }
}

// The scores [n, rows] of `groups` groups of rows, which share what they read of n = lanes / groups keys.
template <int64_t rows, int64_t groups>
inline void score_keys(const float * queries, const float * keys, int64_t D, int64_t width, float * scores,
                       int64_t to_group) {
    constexpr int64_t parts = lanes / rows, n = lanes / groups;
    Floats            sums[n][groups];
    for (auto & of_key : sums) {
        for (Floats & sum : of_key) {
            sum = zeros();
        }
    }
    for (int64_t d = 0; d < D; d += chunk, keys += chunk * width) {
        for (int64_t step = 0; step < chunk; step += parts, queries += lanes) {
            Floats q[groups];
            for (int64_t g = 0; g < groups; g++) {
                q[g] = load_floats(queries + g * rows * D);
            }
            for (int64_t i = 0; i < n; i++) {
                const Floats k = repeat<parts>(keys + i * chunk + step);
                for (int64_t g = 0; g < groups; g++) {
                    sums[i][g] = multiply_add(q[g], k, sums[i][g]);
                }
            }
        }
    }
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t left = n; left > n / parts; left /= 2) { // the parts of a row are neighbours
            for (int64_t i = 0; i < left / 2; i++) {
                sums[i][g] = pair_sums(sums[2 * i][g], sums[2 * i + 1][g]);
            }
        }
        for (int64_t i = 0; i < n / parts; i++) {
            store_floats(scores + g * to_group + i * lanes, sums[i][g]);
        }
    }
}

// All keys of a tile and all groups of rows: [n, rows] of a group `to_group` floats behind that of the one before. The first group
// is scored while prefetch(key, n) asks for what is needed next.
template <int64_t rows, class Prefetch>
inline void score_tile(const float * queries, const float * keys, int64_t D, const KeyTile & tile, int64_t n_rows,
                       float * scores, int64_t to_group, Prefetch prefetch) {
    const auto score = [&]<int64_t groups>(int64_t row) {
        for (int64_t key = 0; key < tile.n; key += lanes / groups) {
            score_keys<rows, groups>(queries + row * D, keys + key * chunk, D, tile.width,
                                     scores + row / rows * to_group + key * rows, to_group);
            if (row == 0) {
                prefetch(key, lanes / groups);
            }
        }
    };
    int64_t row = 0;
    if constexpr (rows > 1) {
        for (; row + rows < n_rows; row += 2 * rows) {
            score.template operator()<2>(row);
        }
    }
    for (; row < n_rows; row += rows) {
        score.template operator()<1>(row);
    }
}

// Rows on their way into the second cache. The processor doesn't guess them: a tile is short, and the next one somewhere else.
inline void prefetch_rows(const KeyRows & rows, int64_t first, int64_t last, int64_t D) {
    const int64_t size = rows.type == KeyType::f32 ? 4 * D : rows.type == KeyType::f16 ? 2 * D : D / 32 * 34;
    for (int64_t i = first; i < last; i++) {
        for (int64_t at = 0; at < size; at += 64) {
            __builtin_prefetch(rows.data + static_cast<size_t>(i) * rows.stride + at, 0, 2);
        }
    }
}

// What the rows of some work see of a tile.
enum class Seen { nothing, some, everything };

inline Seen seen(const AttentionWork & work, const KeyTile & tile) {
    if (work.mask[0] == nullptr) {
        return Seen::everything;
    }
    int open = 0, changed = 0;
    for (int64_t r = 0; r < work.n_rows; r++) {
        for (int64_t i = 0; i < tile.n; i++) {
            const int half = work.mask[r][tile.first + i];
            open |= half ^ 0xfc00; // -inf
            changed |= half & 0x7fff;
        }
    }
    return open == 0 ? Seen::nothing : changed == 0 ? Seen::everything : Seen::some;
}

template <int64_t rows> void add_masks(const AttentionWork & work, int64_t row, const KeyTile & tile, float * scores) {
    for (int64_t r = 0; r < rows && row + r < work.n_rows; r++) {
        const uint16_t * mask = work.mask[row + r] + tile.first;
        for (int64_t key = 0; key < tile.n; key += lanes) {
            const int64_t     n = smaller(lanes, tile.n - key);
            alignas(64) float some[lanes];
            store_floats(some, (n == lanes ? load_halves(mask + key) : load_halves(mask + key, n)) * broadcast(log2_e));
            for (int64_t i = 0; i < n; i++) {
                scores[(key + i) * rows + r] += some[i];
            }
        }
    }
}

inline void fill(float * to, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++) {
        to[i] = value;
    }
}

inline void start_sums(AttentionState & state) {
    constexpr auto n = static_cast<int64_t>(sizeof(state.sums) / sizeof(float));
    fill(state.largest, n, -INFINITY);
    fill(state.sums, n, 0.0f);
}

// Of the lanes that belong to the same row.
template <int64_t rows> inline Floats max_of_keys(Floats x) {
    if constexpr (rows < lanes) {
        return max_of_keys<2 * rows>(max(x, rotate<rows>(x)));
    } else {
        return x;
    }
}

// Turns the scores [n, rows] of a tile into weights. What was summed before has to be scaled by the factors.
template <int64_t rows> inline void soften(float * scores, int64_t n, float * largest, float * sums, float * factors) {
    const int64_t size = round_up(n * rows, lanes);
    fill(scores + n * rows, size - n * rows, -INFINITY);
    const Floats before = load_floats(largest);
    Floats       most   = before;
    for (int64_t i = 0; i < size; i += lanes) {
        most = max(load_floats(scores + i), most);
    }
    most                = max_of_keys<rows>(most);
    const Floats base   = max(broadcast(-FLT_MAX), most); // where nothing was seen yet
    const Floats factor = power_of_two(before - base);
    Floats       sum    = load_floats(sums) * factor;
    for (int64_t i = 0; i < size; i += lanes) {
        const Floats weight = power_of_two(load_floats(scores + i) - base);
        store_floats(scores + i, weight);
        sum = sum + weight;
    }
    store_floats(largest, most);
    store_floats(sums, sum);
    store_floats(factors, factor);
}

// mixed·factor + Σ weight·value of R rows and C vectors of columns.
template <class Row, int64_t rows, int64_t R, int64_t C>
inline void mix_columns(const float * weights, const KeyRows & v, int64_t n, int64_t d, const float * factors,
                        float * mixed, int64_t stride) {
    Floats sums[R][C];
    for (int64_t r = 0; r < R; r++) {
        for (int64_t i = 0; i < C; i++) {
            sums[r][i] = load_floats(mixed + r * stride + d + i * lanes) * broadcast(factors[r]);
        }
    }
    const uint8_t * row = v.data;
    for (int64_t key = 0; key < n; key++, row += v.stride, weights += rows) {
        Floats columns[C];
        for (int64_t i = 0; i < C; i++) {
            columns[i] = Row::load(row, d + i * lanes);
        }
        for (int64_t r = 0; r < R; r++) {
            const Floats weight = broadcast(weights[r]);
            for (int64_t i = 0; i < C; i++) {
                sums[r][i] = multiply_add(weight, columns[i], sums[r][i]);
            }
        }
    }
    for (int64_t r = 0; r < R; r++) {
        for (int64_t i = 0; i < C; i++) {
            store_floats(mixed + r * stride + d + i * lanes, sums[r][i]);
        }
    }
}

// All columns from d on of up to R rows, C vectors at a time, then fewer.
template <class Row, int64_t rows, int64_t R, int64_t C>
inline void mix_tile(const float * weights, const KeyRows & v, int64_t n, int64_t d, const float * factors,
                     float * mixed, int64_t stride, int64_t n_rows) {
    if constexpr (R > 1) {
        if (n_rows < R) {
            return mix_tile<Row, rows, R - 1, C>(weights, v, n, d, factors, mixed, stride, n_rows);
        }
    }
    for (; d + C * lanes <= stride; d += C * lanes) {
        mix_columns<Row, rows, R, C>(weights, v, n, d, factors, mixed, stride);
    }
    if constexpr (C > 1) {
        mix_tile<Row, rows, R, C / 2>(weights, v, n, d, factors, mixed, stride, n_rows);
    }
}

template <int64_t rows>
void attend_tile(const AttentionWork & work, const KeyTile & tile, Seen seen, AttentionState & state,
                 const AttentionWork & next_work, const KeyTile & next) {
    alignas(64) float keys[attention_floats], scores[2 * attention_floats], values[attention_floats];
    alignas(64) float factors[sizeof(state.sums) / sizeof(float)];
    const int64_t     D = work.head_dim, D16 = round_up(D, chunk);
    read_keys(work, tile, keys);
    const auto prefetch = [&](int64_t key, int64_t n) {
        const int64_t first = next.first + key, last = next.first + smaller(key + n, next.n);
        prefetch_rows(next_work.k, first, last, D);
        prefetch_rows(next_work.v, first, last, D);
    };
    score_tile<rows>(state.queries, keys, D16, tile, work.n_rows, scores, rows * tile.width, prefetch);
    for (int64_t row = 0; row < work.n_rows; row += rows) {
        float * of_group = scores + row * tile.width;
        if (seen == Seen::some) {
            add_masks<rows>(work, row, tile, of_group);
        }
        const int64_t at = row / rows * lanes;
        soften<rows>(of_group, tile.n, state.largest + at, state.sums + at, factors + at);
    }

    // values that few rows need are multiplied as they are read
    KeyRows v = {work.v.data + static_cast<size_t>(tile.first) * work.v.stride, work.v.stride, work.v.type};
    if ((work.n_rows > 2 * mix_rows && v.type != KeyType::f32) || D % lanes != 0) {
        read_values(work, tile, values);
        v = {reinterpret_cast<const uint8_t *>(values), sizeof(float) * static_cast<size_t>(D16), KeyType::f32};
    }
    with_row_type(v.type, [&]<class Row>(Row) {
        constexpr int64_t R = smaller(rows, mix_rows), C = mix_vectors;
        for (int64_t row = 0; row < work.n_rows; row += R) {
            const float * weights = scores + row / rows * rows * tile.width + row % rows;
            const float * factor  = factors + row / rows * lanes + row % rows;
            mix_tile<Row, rows, R, C>(weights, v, tile.n, 0, factor, state.mixed + row * D16, D16, work.n_rows - row);
        }
    });
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

// Σ weights of a row, from the lanes that have a part of it.
template <int64_t rows> inline float sum_of_row(const AttentionState & state, int64_t row) {
    const float * sums = state.sums + row / rows * lanes + row % rows;
    float         sum  = 0.0f;
    for (int64_t i = 0; i < lanes; i += rows) {
        sum += sums[i];
    }
    return sum;
}

inline int64_t tile_width(int64_t D) {
    return smaller(attention_floats / round_up(D, chunk) / chunk * chunk, attention_rows_max);
}

// A tile of keys for all of the work before the next one: the heads of a position lie side by side in memory.
template <int64_t rows> void attend_rows(const AttentionWork * works, AttentionState * states, int64_t n_works) {
    const int64_t D = works->head_dim, D16 = round_up(D, chunk), width = tile_width(D);
    for (int64_t w = 0; w < n_works; w++) {
        read_queries<rows>(works[w], states[w].queries);
        std::memset(states[w].mixed, 0, sizeof(float) * static_cast<size_t>(round_up(works[w].n_rows, rows) * D16));
        start_sums(states[w]);
    }
    const auto tile_at = [&](int64_t first) { return KeyTile{first, smaller(width, works->n_keys - first), width}; };
    for (int64_t first = 0; first < works->n_keys; first += width) {
        const KeyTile tile = tile_at(first);
        for (int64_t w = 0; w < n_works; w++) {
            const Seen what = seen(works[w], tile);
            if (what != Seen::nothing) {
                const bool last = w + 1 == n_works;
                attend_tile<rows>(works[w], tile, what, states[w], works[last ? 0 : w + 1],
                                  last ? tile_at(first + width) : tile);
            }
        }
    }
    for (int64_t w = 0; w < n_works; w++) {
        for (int64_t row = 0; row < works[w].n_rows; row++) { // one that sees nothing is 0
            const float sum = sum_of_row<rows>(states[w], row);
            scale_row(states[w].mixed + row * D16, sum == 0.0f ? 0.0f : 1.0f / sum, D, works[w].out[row]);
        }
    }
}

void attend(const AttentionWork * works, AttentionState * states, int64_t n_works) {
    switch (smaller(works->rows_together, lanes)) {
        case 1: return attend_rows<1>(works, states, n_works);
        case 2: return attend_rows<2>(works, states, n_works);
        case 4: return attend_rows<4>(works, states, n_works);
        case 8: return attend_rows<8>(works, states, n_works);
        default: return attend_rows<lanes>(works, states, n_works);
    }
}

// Adds the weights [n, lanes] of a vector of rows, times their factors, to where they belong.
inline void add_weights(const float * weights, int64_t n, Floats factors, float * const * to, int64_t n_rows) {
    for (int64_t key = 0; key < n; key += lanes) {
        Floats v[lanes];
        for (int64_t i = 0; i < lanes; i++) {
            v[i] = load_floats(weights + (key + i) * lanes) * factors;
        }
        transpose(v);
        for (int64_t r = 0; r < n_rows; r++) {
            if (key + lanes <= n) {
                store_floats(to[r] + key, load_floats(to[r] + key) + v[r]);
            } else {
                store_floats(to[r] + key, load_floats(to[r] + key, n - key) + v[r], n - key);
            }
        }
    }
}

void weigh(const AttentionWork & work, float factor, AttentionState & state, float * room) {
    alignas(64) float keys[attention_floats], factors[lanes];
    const int64_t     D16 = round_up(work.head_dim, chunk), width = tile_width(work.head_dim);
    const int64_t     stride = round_up(work.n_keys, lanes) * lanes; // of a vector of rows
    read_queries<lanes>(work, state.queries);
    start_sums(state);
    for (int64_t first = 0; first < work.n_keys; first += width) {
        const KeyTile tile = {first, smaller(width, work.n_keys - first), width};
        const Seen    what = seen(work, tile);
        if (what != Seen::nothing) {
            read_keys(work, tile, keys);
            const auto prefetch = [&](int64_t key, int64_t n) {
                const int64_t next = first + width + key;
                prefetch_rows(work.k, next, smaller(next + n, work.n_keys), work.head_dim);
            };
            score_tile<lanes>(state.queries, keys, D16, tile, work.n_rows, room + first * lanes, stride, prefetch);
        }
        for (int64_t row = 0; row < work.n_rows && what != Seen::everything; row += lanes) {
            float * scores = room + row / lanes * stride + first * lanes;
            if (what == Seen::nothing) {
                fill(scores, tile.n * lanes, -INFINITY);
            }
            if (what == Seen::some) {
                add_masks<lanes>(work, row, tile, scores);
            }
        }
    }
    for (int64_t row = 0; row < work.n_rows; row += lanes) {
        float * scores = room + row / lanes * stride;
        soften<lanes>(scores, work.n_keys, state.largest + row, state.sums + row, factors);
        for (int64_t r = 0; r < lanes; r++) {
            const float sum = state.sums[row + r];
            factors[r]      = sum == 0.0f ? 0.0f : factor / sum;
        }
        add_weights(scores, work.n_keys, load_floats(factors), work.out + row, smaller(lanes, work.n_rows - row));
    }
}

} // namespace

} // namespace buoy
