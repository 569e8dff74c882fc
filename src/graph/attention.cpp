#include "kernel/attention.h"
#include "graph/graph.h"
#include "graph/kv-store.h"

namespace buoy {

ggml_tensor * Graph::by_head(ggml_tensor * x) { return ggml_permute(ctx_.get(), x, 0, 2, 1, 3); }

// Behind each other, by halves.
ggml_tensor * Graph::joined(const std::vector<ggml_tensor *> & parts) {
    std::vector<ggml_tensor *> left = parts;
    while (left.size() > 1) {
        std::vector<ggml_tensor *> pairs;
        for (size_t i = 0; i + 1 < left.size(); i += 2) {
            pairs.push_back(ggml_concat(ctx_.get(), left[i], left[i + 1], 1));
        }
        if (left.size() % 2 == 1) {
            pairs.push_back(left.back());
        }
        left = std::move(pairs);
    }
    return left[0];
}

ggml_tensor * Graph::attention(int32_t il, ggml_tensor * q) {
    if (!showing_) {
        track_now(il, q);
    }
    std::vector<ggml_tensor *> parts; // [H·D, n]
    for (size_t s = 0; s < key_.sequences.size(); s++) {
        const Span rows = key_.sequences.size() > 1 ? span(s, rows_.needed) : Span{0, q->ne[2]};
        if (rows.n > 0 && (!showing_ || key_.sequences[s].is_tapped(il))) {
            parts.push_back(attend_sequence(il, s, columns(q, 2, rows)));
        }
    }
    if (showing_) { // nobody reads it, but it has the right shape
        return ggml_reshape_2d(ctx_.get(), q, q->ne[0] * q->ne[1], q->ne[2]);
    }
    return joined(parts);
}

ggml_tensor * Graph::attend_sequence(int32_t il, size_t sequence, ggml_tensor * q) {
    const SequenceKey & seq    = key_.sequences[sequence];
    const bool          stored = seq.kv == KvUse::store;
    ggml_tensor *       k      = stored ? store_.read(ctx_.get(), store_.k(il), seq.sequence, seq.n_kv)
                                        : by_head(columns(keys_.k, 2, span(sequence, false))); // [D, K, Hkv]
    ggml_tensor *       v      = stored ? store_.read(ctx_.get(), store_.v(il), seq.sequence, seq.n_kv)
                                        : by_head(columns(keys_.v, 2, span(sequence, false)));
    q                          = by_head(q); // [D, Tq, H]

    // What is shown is computed beside the fast path, so that observing changes no result.
    const bool    fused   = flash_[static_cast<size_t>(il)] && !seq.is_edited(il);
    const bool    shown   = showing_ || !(rows_restricted(il) || is_partial(il));
    ggml_tensor * pattern = nullptr; // [K, Tq, H]
    if (shown) {
        tap_copy(Tap::rot_q, il, sequence, q);
        tap_copy(Tap::rot_k, il, sequence, k);
        tap_copy(Tap::v, il, sequence, v);
    }
    const bool scores = seq.has_tap(Tap::attn_scores, il);
    if (fused && shown && !scores && seq.has_tap(Tap::pattern, il) && use_kernels(il, k, v)) {
        tap_weights(il, sequence, q, k);
    } else if ((!fused && !showing_) || (shown && (scores || seq.has_tap(Tap::pattern, il)))) {
        pattern = attention_pattern(il, sequence, q, k, shown);
    }
    if (showing_) {
        return nullptr;
    }
    return fused ? flash_attention(il, sequence, q, k, v) : mix(pattern, v);
}

// Null where nothing is hidden.
ggml_tensor * Graph::mask(int32_t il, size_t sequence) {
    const SequenceInputs & in    = inputs_.sequences[sequence];
    const auto &           masks = rows_.needed ? in.masks_rows : in.masks;
    const auto             found = masks.find(hp_.layer(il).window);
    if (found == masks.end()) {
        return nullptr;
    }
    ggml_tensor * whole = found->second;
    return rows_.n == rows_.n_all ? whole
                                  : ggml_view_2d(ctx_.get(), whole, whole->ne[0], rows_.n, whole->nb[1],
                                                 whole->nb[1] * static_cast<size_t>(rows_.first));
}

ggml_tensor * Graph::attention_pattern(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k, bool shown) {
    ggml_context *      ctx   = ctx_.get();
    const LayerParams & p     = hp_.layer(il);
    float               scale = p.scale;
    if (model_.attention_device(il) != model_.placement().cpu()) {
        // GPUs copy strided keys to scratch of their own, and don't take quantised ones at all
        k = ggml_is_quantized(k->type) ? ggml_cast(ctx, k, GGML_TYPE_F32) : ggml_cont(ctx, k);
    }
    ggml_tensor * scores =
        ggml_mul_mat(ctx, k, ggml_cont(ctx, q)); // [K, Tq, H]; twice as fast on a CPU as with strides
    ggml_prec_set_acc(scores, GGML_PREC_F32);
    if (p.softcap > 0.0f) {
        scores = this->scale(ggml_tanh(ctx, this->scale(scores, scale / p.softcap)), p.softcap);
        scale  = 1.0f;
    }
    ggml_tensor * pattern = nullptr;
    if (key_.sequences[sequence].is_edited(il)) {
        pattern = edited_pattern(il, sequence, scores, scale);
    } else {
        if (shown) {
            tap_scores(il, sequence, scores, scores, scale);
        }
        pattern = ggml_soft_max_ext(ctx, scores, mask(il, sequence), scale, 0.0f);
    }
    if (shown) {
        tap_pattern(il, sequence, pattern);
    }
    return pattern;
}

ggml_tensor * Graph::mix(ggml_tensor * pattern, ggml_tensor * v) {
    ggml_context * ctx = ctx_.get();
    if (ggml_is_quantized(v->type)) {
        v = ggml_cast(ctx, v, GGML_TYPE_F32);
    }
    v                   = ggml_cont(ctx, ggml_transpose(ctx, v)); // [K, D, Hkv]
    ggml_tensor * mixed = ggml_mul_mat(ctx, v, pattern);          // [D, Tq, H]
    mixed               = ggml_permute(ctx, mixed, 0, 2, 1, 3);   // [D, H, Tq]
    return ggml_cont_2d(ctx, mixed, mixed->ne[0] * mixed->ne[1], mixed->ne[2]);
}

bool Graph::use_kernels(int32_t il, const ggml_tensor * k, const ggml_tensor * v) const {
    return model_.use_kernels() && hp_.layer(il).softcap == 0.0f &&
           can_attend(k->type, v->type, hp_.layer(il).head_dim);
}

// Rows that only fill a tile (tile_rows) are dropped again.
ggml_tensor * Graph::flash_attention(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
    ggml_context *      ctx = ctx_.get();
    const LayerParams & p   = hp_.layer(il);
    if (use_kernels(il, k, v)) {
        return attend(ctx, q, k, v, mask(il, sequence), p.scale);
    }
    if (k->type == GGML_TYPE_F32) {
        k = ggml_cast(ctx, k, GGML_TYPE_F16);
    }
    if (v->type == GGML_TYPE_F32) {
        v = ggml_cast(ctx, v, GGML_TYPE_F16);
    }
    const int64_t n_rows = q->ne[1], n_tile = tile_rows(sequence, n_rows);
    if (n_tile > n_rows) {
        q = ggml_pad(ctx, q, 0, static_cast<int>(n_tile - n_rows), 0, 0);
    }
    // [D, H, Tq or a tile]
    ggml_tensor * mixed = ggml_flash_attn_ext(ctx, q, k, v, mask(il, sequence), p.scale, 0.0f, p.softcap);
    ggml_prec_set_acc(mixed, GGML_PREC_F32);
    if (mixed->ne[2] > n_rows) {
        mixed = ggml_view_3d(ctx, mixed, mixed->ne[0], mixed->ne[1], n_rows, mixed->nb[1], mixed->nb[2], 0);
    }
    return ggml_reshape_2d(ctx, mixed, mixed->ne[0] * mixed->ne[1], mixed->ne[2]);
}

} // namespace buoy
