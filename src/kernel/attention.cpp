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

struct Tensors {
    const ggml_tensor *q, *k, *v, *mask, *dst;
    float              scale;

    int64_t n_rows() const { return q->ne[1] * (q->ne[2] / k->ne[2]); } // for each head of keys
};

// A row of work is one query of one head; those of all heads that share keys are counted through, head by head.
AttentionWork make_work(const Tensors & t, int64_t unit, int64_t n_tiles) {
    const int64_t D = t.q->ne[0], Tq = t.q->ne[1], H = t.q->ne[2], Hkv = t.k->ne[2];
    const int64_t tile = unit % n_tiles, head_kv = unit / n_tiles % Hkv, stream = unit / n_tiles / Hkv;
    const int64_t first = t.n_rows() * tile / n_tiles, last = t.n_rows() * (tile + 1) / n_tiles;
    AttentionWork work;
    work.n_rows   = last - first;
    work.n_keys   = t.k->ne[1];
    work.head_dim = D;
    work.scale    = t.scale;
    work.k        = key_rows(t.k, head_kv, stream);
    work.v        = key_rows(t.v, head_kv, stream);
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

    const int64_t heads   = t.k->ne[2] * t.q->ne[3]; // of all streams
    const int64_t most    = std::min(attention_rows_max, attention_floats / ((t.q->ne[0] + 15) / 16 * 16));
    const int64_t n_tiles = std::min(t.n_rows(), std::max((t.n_rows() + most - 1) / most, (nth + heads - 1) / heads));
    const int64_t n_units = n_tiles * heads, end = n_units * (ith + 1) / nth;

    constexpr int64_t                        together = 8;
    thread_local std::vector<AttentionState> states(together); // kept: a graph asks once a layer
    std::vector<AttentionWork>               works;
    for (int64_t unit = n_units * ith / nth; unit < end; unit++) {
        works.push_back(make_work(t, unit, n_tiles));
        if (works.size() == together || unit + 1 == end) {
            kernel_table()->attend(works.data(), states.data(), static_cast<int64_t>(works.size()));
            works.clear();
        }
    }
}

} // namespace

bool can_attend(ggml_type type_k, ggml_type type_v, int64_t head_dim) {
    return kernel_table() != nullptr && is_key_type(type_k) && is_key_type(type_v) && head_dim % 8 == 0 &&
           head_dim <= attention_head_max;
}

ggml_tensor * attend(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * mask,
                     float scale) {
    void * userdata = nullptr; // the scale itself: nothing has to live as long as the graph
    static_assert(sizeof(scale) <= sizeof(userdata), "a float fits into a pointer");
    std::memcpy(&userdata, &scale, sizeof(scale));
    ggml_tensor * args[] = {q, k, v, mask};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, q->ne[0] * q->ne[2], q->ne[1] * q->ne[3], 1, 1, args,
                          mask != nullptr ? 4 : 3, run, GGML_N_TASKS_MAX, userdata);
}

} // namespace buoy
