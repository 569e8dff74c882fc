#include "kernel/attention.h"
#include "graph/graph.h"
#include "graph/kv-store.h"
#include "model/model.h"

namespace buoy {

ggml_tensor * Graph::by_head(ggml_tensor * x) {
    const int64_t S = key_.n_streams;
    x               = ggml_reshape_4d(ctx_.get(), x, x->ne[0], x->ne[1], x->ne[2] / S, S); // [D, n, T, S]
    return ggml_permute(ctx_.get(), x, 0, 2, 1, 3);                                        // [D, T, n, S]
}

ggml_tensor * Graph::attention(int32_t il, ggml_tensor * q, const KeysValues & kv) {
    const bool    stored = key_.kv == KvUse::store;
    ggml_tensor * k = stored ? store_->read(ctx_.get(), store_->k(il), key_.n_kv) : by_head(kv.k); // [D, K, Hkv, S]
    ggml_tensor * v = stored ? store_->read(ctx_.get(), store_->v(il), key_.n_kv) : by_head(kv.v);
    ggml_tensor * by_row = q;
    q                    = by_head(q); // [D, Tq, H, S]

    // What is shown is computed beside the fast path, so that observing changes no result.
    const bool    fused   = flash_[static_cast<size_t>(il)] && !key_.is_edited(il);
    const bool    shown   = showing_ || !rows_restricted(il);
    ggml_tensor * pattern = nullptr; // [K, Tq, H, S]
    if (shown) {
        tap_copy(Tap::rot_q, il, q);
        tap_copy(Tap::rot_k, il, k);
        tap_copy(Tap::v, il, v);
    }
    const bool scores = key_.has_tap(Tap::attn_scores, il);
    if (fused && shown && !scores && key_.has_tap(Tap::pattern, il) && use_kernels(k, v)) {
        tap_weights(il, q, k);
    } else if (!fused || (shown && (scores || key_.has_tap(Tap::pattern, il)))) {
        pattern = attention_pattern(il, q, k, shown);
    }
    if (showing_) {
        return ggml_reshape_2d(ctx_.get(), by_row, by_row->ne[0] * by_row->ne[1], by_row->ne[2]);
    }
    return fused ? flash_attention(q, k, v) : mix(pattern, v);
}

ggml_tensor * Graph::attention_pattern(int32_t il, ggml_tensor * q, ggml_tensor * k, bool shown) {
    ggml_context * ctx = ctx_.get();
    if (model_.attention_device(il) != model_.placement().cpu()) {
        // GPUs copy strided keys to scratch of their own, and don't take quantised ones at all
        k = ggml_is_quantized(k->type) ? ggml_cast(ctx, k, GGML_TYPE_F32) : ggml_cont(ctx, k);
    }
    ggml_tensor * scores =
        ggml_mul_mat(ctx, k, ggml_cont(ctx, q)); // [K, Tq, H, S]; twice as fast on a CPU as with strides
    ggml_prec_set_acc(scores, GGML_PREC_F32);
    ggml_tensor * pattern = nullptr;
    if (key_.is_edited(il)) {
        pattern = edited_pattern(il, scores);
    } else {
        if (shown) {
            tap({Tap::attn_scores, il}, scores);
        }
        pattern = ggml_soft_max_ext(ctx, scores, rows_.mask, hp_.attn_scale(), 0.0f);
    }
    if (shown) {
        tap_pattern(il, pattern);
    }
    return pattern;
}

ggml_tensor * Graph::mix(ggml_tensor * pattern, ggml_tensor * v) {
    ggml_context * ctx = ctx_.get();
    if (ggml_is_quantized(v->type)) {
        v = ggml_cast(ctx, v, GGML_TYPE_F32);
    }
    v                   = ggml_cont(ctx, ggml_transpose(ctx, v)); // [K, D, Hkv, S]
    ggml_tensor * mixed = ggml_mul_mat(ctx, v, pattern);          // [D, Tq, H, S]
    mixed               = ggml_permute(ctx, mixed, 0, 2, 1, 3);   // [D, H, Tq, S]
    return ggml_cont_2d(ctx, mixed, mixed->ne[0] * mixed->ne[1], mixed->ne[2] * mixed->ne[3]);
}

bool Graph::use_kernels(const ggml_tensor * k, const ggml_tensor * v) const {
    return model_.use_kernels() && can_attend(k->type, v->type, hp_.head_dim);
}

// Rows that only fill a tile (tile_rows) are dropped again.
ggml_tensor * Graph::flash_attention(ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
    ggml_context * ctx = ctx_.get();
    if (use_kernels(k, v)) {
        return attend(ctx, q, k, v, rows_.mask, hp_.attn_scale());
    }
    if (k->type == GGML_TYPE_F32) {
        k = ggml_cast(ctx, k, GGML_TYPE_F16);
    }
    if (v->type == GGML_TYPE_F32) {
        v = ggml_cast(ctx, v, GGML_TYPE_F16);
    }
    const int64_t n_rows = q->ne[1];
    if (tile_rows(n_rows) > n_rows) {
        q = ggml_pad(ctx, q, 0, static_cast<int>(tile_rows(n_rows) - n_rows), 0, 0);
    }
    // [D, H, Tq or a tile, S]
    ggml_tensor * mixed = ggml_flash_attn_ext(ctx, q, k, v, rows_.mask, hp_.attn_scale(), 0.0f, 0.0f);
    ggml_prec_set_acc(mixed, GGML_PREC_F32);
    if (mixed->ne[2] > n_rows) {
        mixed = ggml_view_4d(ctx, mixed, mixed->ne[0], mixed->ne[1], n_rows, mixed->ne[3], mixed->nb[1], mixed->nb[2],
                             mixed->nb[3], 0);
        mixed = mixed->ne[3] > 1 ? ggml_cont(ctx, mixed) : mixed;
    }
    return ggml_reshape_2d(ctx, mixed, mixed->ne[0] * mixed->ne[1], mixed->ne[2] * mixed->ne[3]);
}

} // namespace buoy
