#include "kernel/attention.h"

#include "kernel/kernels.h"

#include <algorithm>
#include <cstring>

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

// A row of work is one query of one head; those of all heads that share keys are counted through, head by head.
void run(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const ggml_tensor * q    = dst->src[0];
    const ggml_tensor * k    = dst->src[1];
    const ggml_tensor * v    = dst->src[2];
    const ggml_tensor * mask = dst->src[3];

    const int64_t D = q->ne[0], Tq = q->ne[1], H = q->ne[2], S = q->ne[3], Hkv = k->ne[2];
    const int64_t n_rows  = Tq * (H / Hkv); // for each head of keys
    const int64_t most    = std::min(attention_rows_max, 4096 / ((D + 15) / 16 * 16));
    const int64_t n_tiles = std::min(n_rows, std::max((n_rows + most - 1) / most, (nth + Hkv * S - 1) / (Hkv * S)));
    const int64_t n_units = n_tiles * Hkv * S;

    AttentionWork work;
    work.n_keys   = k->ne[1];
    work.head_dim = D;
    std::memcpy(&work.scale, &userdata, sizeof(work.scale));
    for (int64_t unit = n_units * ith / nth; unit < n_units * (ith + 1) / nth; unit++) {
        const int64_t tile = unit % n_tiles, head_kv = unit / n_tiles % Hkv, stream = unit / n_tiles / Hkv;
        const int64_t first = n_rows * tile / n_tiles, last = n_rows * (tile + 1) / n_tiles;
        work.n_rows = last - first;
        work.k      = key_rows(k, head_kv, stream);
        work.v      = key_rows(v, head_kv, stream);
        for (int64_t row = first; row < last; row++) {
            const int64_t i = row - first, t = row % Tq, head = head_kv * (H / Hkv) + row / Tq;
            work.q[i]    = at<const float>(q, t, head, stream);
            work.out[i]  = static_cast<float *>(dst->data) + ((stream * Tq + t) * H + head) * D;
            work.mask[i] = mask != nullptr ? at<const uint16_t>(mask, t, 0, 0) : nullptr;
        }
        kernel_table()->attend(work);
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
