#include "kernel/attention.h"

#include "kernel/kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace buoy {

namespace {

bool is_key_type(ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_Q8_0; }

KeyRows key_rows(const ggml_tensor * t, int64_t head, int64_t stream) {
    const KeyType type = t->type == GGML_TYPE_F32   ? KeyType::f32
                         : t->type == GGML_TYPE_F16 ? KeyType::f16
                                                    : KeyType::q8_0;
    return {static_cast<const uint8_t *>(t->data) + t->nb[2] * static_cast<size_t>(head) +
                t->nb[3] * static_cast<size_t>(stream),
            t->nb[1], type};
}

template <class T> T * at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return reinterpret_cast<T *>(static_cast<char *>(t->data) + t->nb[1] * static_cast<size_t>(i1) +
                                 t->nb[2] * static_cast<size_t>(i2) + t->nb[3] * static_cast<size_t>(i3));
}

// How many of n rows to compute scores of together. Fewer leave less of a vector empty, but then a score's sum has to be gathered
// from more of its lanes. Two groups of them are faster than one, since they share what they read of the keys. Times are those of
// a row with Zen 4's AVX-512 and 64 columns, in sixty-fourths of the best.
int64_t rows_together(int64_t n) {
    constexpr struct {
        int64_t rows, time_of_two, time_of_one;
    } ways[]        = {{16, 64, 68}, {8, 67, 84}, {4, 78, 93}, {2, 105, 117}, {1, 149, 149}};
    const auto time = [n](const auto & way) {
        const int64_t groups = (n + way.rows - 1) / way.rows;
        return way.rows * (groups / 2 * 2 * way.time_of_two + groups % 2 * way.time_of_one);
    };
    return std::min_element(std::begin(ways), std::end(ways), [&](auto & a, auto & b) { return time(a) < time(b); })
        ->rows;
}

struct RowRange {
    int64_t first, last;
};

// Rows in tiles of what fits at a time, or smaller ones if so many are wished for.
struct RowTiles {
    int64_t n_rows, together, n_tiles;

    RowTiles(int64_t n, int64_t head_dim, int64_t wish) : n_rows(n), together(rows_together(n)) {
        const int64_t fit  = std::min(attention_rows_max, attention_floats / ((head_dim + 15) / 16 * 16));
        const int64_t most = fit / together * together;
        n_tiles            = std::min(n, std::max((n + most - 1) / most, wish));
    }

    RowRange operator[](int64_t i) const {
        const int64_t step = n_tiles * together <= n_rows ? together : 1;
        const int64_t n    = (n_rows + step - 1) / step;
        return {n * i / n_tiles * step, std::min(n_rows, n * (i + 1) / n_tiles * step)};
    }
};

struct Tensors {
    const ggml_tensor *q, *k, *v, *mask, *dst;
    float              scale;

    int64_t n_rows() const { return q->ne[1] * (q->ne[2] / k->ne[2]); } // for each head of keys
};

// A row of work is one query of one head; those of all heads that share keys are counted through, head by head.
AttentionWork make_work(const Tensors & t, int64_t unit, const RowTiles & tiles) {
    const int64_t D = t.q->ne[0], Tq = t.q->ne[1], H = t.q->ne[2], Hkv = t.k->ne[2];
    const int64_t head_kv = unit / tiles.n_tiles % Hkv, stream = unit / tiles.n_tiles / Hkv;
    const auto [first, last] = tiles[unit % tiles.n_tiles];
    AttentionWork work;
    work.n_rows        = last - first;
    work.n_keys        = t.k->ne[1];
    work.head_dim      = D;
    work.rows_together = tiles.together;
    work.scale         = t.scale;
    work.k             = key_rows(t.k, head_kv, stream);
    work.v             = key_rows(t.v, head_kv, stream);
    for (int64_t row = first; row < last; row++) {
        const int64_t i = row - first, token = row % Tq, head = head_kv * (H / Hkv) + row / Tq;
        work.q[i]    = at<const float>(t.q, token, head, stream);
        work.out[i]  = static_cast<float *>(t.dst->data) + ((stream * Tq + token) * H + head) * D;
        work.mask[i] = t.mask != nullptr ? at<const uint16_t>(t.mask, token, 0, 0) : nullptr;
    }
    return work;
}

void run(ggml_tensor * dst, int ith, int nth, void * userdata) {
    Tensors t = {dst->src[0], dst->src[1], dst->src[2], dst->src[3], dst, 0.0f};
    std::memcpy(&t.scale, &userdata, sizeof(t.scale));

    const int64_t  heads = t.k->ne[2] * t.q->ne[3]; // of all streams
    const RowTiles tiles(t.n_rows(), t.q->ne[0], (nth + heads - 1) / heads);
    const int64_t  n_units = tiles.n_tiles * heads, end = n_units * (ith + 1) / nth;

    // heads that lie side by side in memory are read together
    constexpr size_t                         most     = 8;
    const size_t                             together = t.k->nb[2] < t.k->nb[1] ? most : 1;
    thread_local std::vector<AttentionState> states(most); // kept: a graph asks once a layer
    std::vector<AttentionWork>               works;
    for (int64_t unit = n_units * ith / nth; unit < end; unit++) {
        works.push_back(make_work(t, unit, tiles));
        if (works.size() == together || unit + 1 == end) {
            kernel_table()->attend(works.data(), states.data(), static_cast<int64_t>(works.size()));
            works.clear();
        }
    }
}

// What attention_weights was asked for.
struct Wanted {
    Tensors             t;
    const ggml_tensor * chosen;

    explicit Wanted(ggml_tensor * dst, void * userdata)
        : t{dst->src[0], dst->src[1], nullptr, nullptr, dst, 0.0f}, chosen(nullptr) {
        std::memcpy(&t.scale, &userdata, sizeof(t.scale));
        for (const ggml_tensor * arg : {dst->src[2], dst->src[3]}) {
            if (arg != nullptr) {
                (arg->type == GGML_TYPE_F16 ? t.mask : chosen) = arg;
            }
        }
    }

    int64_t n_rows() const { return chosen != nullptr ? chosen->ne[0] : t.q->ne[1]; }
    int64_t n_heads() const { return chosen != nullptr ? chosen->ne[1] : t.q->ne[2]; }
    int64_t n_streams() const { return t.q->ne[3]; }

    int64_t query(int64_t row, int64_t head, int64_t stream) const {
        const int64_t i = (stream * n_heads() + head) * n_rows() + row;
        const int64_t H = t.q->ne[2], Tq = t.q->ne[1];
        return chosen != nullptr ? static_cast<const int32_t *>(chosen->data)[i] : (stream * H + head) * Tq + row;
    }
};

// Adds the weights of some rows of one head to where they belong: to their own row, or all to the first.
void add_weights(const Wanted & wanted, RowRange rows, int64_t head, int64_t stream, int64_t out_head, bool one_row,
                 float factor) {
    const Tensors & t  = wanted.t;
    const int64_t   Tq = t.q->ne[1], n_group = t.q->ne[2] / t.k->ne[2], K = t.k->ne[1];
    AttentionWork   work;
    work.n_rows   = rows.last - rows.first;
    work.n_keys   = K;
    work.head_dim = t.q->ne[0];
    work.scale    = t.scale;
    for (int64_t row = rows.first; row < rows.last; row++) {
        const int64_t query = wanted.query(row, head, stream), token = query % Tq, from = query / Tq % t.q->ne[2];
        const int64_t i = row - rows.first;
        work.k          = key_rows(t.k, from / n_group, stream);
        work.q[i]       = at<const float>(t.q, token, from, stream);
        work.out[i]     = at<float>(t.dst, one_row ? 0 : row, out_head, stream);
        work.mask[i]    = t.mask != nullptr ? at<const uint16_t>(t.mask, token, 0, 0) : nullptr;
    }
    thread_local AttentionState     state;
    thread_local std::vector<float> room;
    room.resize(std::max(room.size(), static_cast<size_t>((work.n_rows + 15) / 16 * 16 * (K + 64))));
    kernel_table()->weigh(work, factor, state, room.data());
}

// Whoever adds to a row adds everything to it, in the same order for any number of threads.
template <PatternShape shape> void run_weights(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const Wanted   wanted(dst, userdata);
    const int64_t  n_rows = wanted.n_rows(), n_heads = wanted.n_heads(), K = dst->ne[0];
    const int64_t  n_outer = (shape == PatternShape::heads ? 1 : n_heads) * wanted.n_streams();
    const int64_t  wish    = shape == PatternShape::received ? 1 : (nth + n_outer - 1) / n_outer;
    const RowTiles tiles(n_rows, wanted.t.q->ne[0], wish);
    const int64_t  n_parts = shape == PatternShape::received ? 1 : tiles.n_tiles; // of the rows, for different threads

    for (int64_t unit = n_outer * n_parts * ith / nth; unit < n_outer * n_parts * (ith + 1) / nth; unit++) {
        const int64_t part = unit % n_parts, outer = unit / n_parts;
        const int64_t stream   = shape == PatternShape::heads ? outer : outer / n_heads;
        const int64_t out_head = shape == PatternShape::heads ? 0 : outer % n_heads;
        const auto    clear    = [&](int64_t row) { std::fill_n(at<float>(dst, row, out_head, stream), K, 0.0f); };
        if (shape == PatternShape::received) {
            clear(0);
            for (int64_t i = 0; i < tiles.n_tiles; i++) {
                add_weights(wanted, tiles[i], out_head, stream, out_head, true, 1.0f / static_cast<float>(n_rows));
            }
            continue;
        }
        for (int64_t row = tiles[part].first; row < tiles[part].last; row++) {
            clear(row);
        }
        for (int64_t head = 0; head < (shape == PatternShape::heads ? n_heads : 1); head++) {
            const float factor = shape == PatternShape::heads ? 1.0f / static_cast<float>(n_heads) : 1.0f;
            add_weights(wanted, tiles[part], head + out_head, stream, out_head, false, factor);
        }
    }
}

// The scale itself travels as userdata: nothing has to live as long as the graph.
void * as_userdata(float scale) {
    void * userdata = nullptr;
    static_assert(sizeof(scale) <= sizeof(userdata), "a float fits into a pointer");
    std::memcpy(&userdata, &scale, sizeof(scale));
    return userdata;
}

} // namespace

bool can_attend(ggml_type type_k, ggml_type type_v, int64_t head_dim) {
    return kernel_table() != nullptr && is_key_type(type_k) && is_key_type(type_v) && head_dim % 8 == 0 &&
           head_dim <= attention_head_max;
}

ggml_tensor * attend(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * mask,
                     float scale) {
    ggml_tensor * args[] = {q, k, v, mask};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, q->ne[0] * q->ne[2], q->ne[1] * q->ne[3], 1, 1, args,
                          mask != nullptr ? 4 : 3, run, GGML_N_TASKS_MAX, as_userdata(scale));
}

ggml_tensor * attention_weights(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * mask, float scale,
                                ggml_tensor * chosen, PatternShape shape) {
    std::vector<ggml_tensor *> args = {q, k};
    for (ggml_tensor * arg : {mask, chosen}) {
        if (arg != nullptr) {
            args.push_back(arg);
        }
    }
    const int64_t n_rows  = shape == PatternShape::received ? 1 : chosen != nullptr ? chosen->ne[0] : q->ne[1];
    const int64_t n_heads = shape == PatternShape::heads ? 1 : chosen != nullptr ? chosen->ne[1] : q->ne[2];
    const auto    run_it  = shape == PatternShape::whole   ? run_weights<PatternShape::whole>
                            : shape == PatternShape::heads ? run_weights<PatternShape::heads>
                                                           : run_weights<PatternShape::received>;
    return ggml_custom_4d(ctx, GGML_TYPE_F32, k->ne[1], n_rows, n_heads, q->ne[3], args.data(),
                          static_cast<int>(args.size()), run_it, GGML_N_TASKS_MAX, as_userdata(scale));
}

} // namespace buoy
