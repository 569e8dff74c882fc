#include "graph/graph.h"

#include "graph/kv-store.h"
#include "model/model.h"

#include <algorithm>
#include <cmath>

namespace buoy {

bool GraphKey::operator==(const GraphKey & other) const {
    return n_tokens == other.n_tokens && n_streams == other.n_streams && n_rows == other.n_rows && n_kv == other.n_kv &&
           masked == other.masked && cfg_scale == other.cfg_scale && kv == other.kv && output == other.output && taps == other.taps;
}

bool GraphKey::has_tap(Tap tap, int32_t layer) const {
    return std::find(taps.begin(), taps.end(), TapPoint{ tap, layer }) != taps.end();
}

size_t Graph::node_limit(int32_t n_layer) {
    // a block takes about 35 nodes, with every tap on 15 more
    return static_cast<size_t>(n_layer) * 64 + 256;
}

size_t Graph::scratch_size(int32_t n_layer) {
    const size_t n = node_limit(n_layer);
    return ggml_tensor_overhead() * n + ggml_graph_overhead_custom(n, false);
}

Graph::Graph(const Model & model, const GraphKey & key, KvStore * store, const std::vector<bool> & flash,
             std::vector<uint8_t> & scratch)
    : model_(model), hp_(model.hparams()), key_(key), store_(store), flash_(flash) {
    ctx_.reset(ggml_init({ scratch.size(), scratch.data(), true }));
    graph_ = ggml_new_graph_custom(ctx_.get(), node_limit(hp_.n_layer), false);

    for (const TapPoint & point : key_.taps) {
        last_layer_tapped_ = last_layer_tapped_ || point.layer == hp_.n_layer - 1;
    }
    const int64_t n_all  = key_.n_tokens * key_.n_streams;
    const int64_t n_rows = key_.n_rows * key_.n_streams;
    inputs_.tokens       = input(GGML_TYPE_I32, n_all, 1, "tokens");
    inputs_.positions    = input(GGML_TYPE_I32, n_all, 1, "positions");
    if (key_.masked) {
        inputs_.mask = input(GGML_TYPE_F16, key_.n_kv, key_.n_tokens, "mask");
    }
    if (key_.n_rows > 0 && key_.n_rows < key_.n_tokens) {
        inputs_.rows = input(GGML_TYPE_I32, n_rows, 1, "rows");
    }
    if (key_.n_rows > 0 && rows_restricted(hp_.n_layer - 1)) {
        inputs_.positions_rows = input(GGML_TYPE_I32, n_rows, 1, "positions_rows");
        if (key_.masked) {
            inputs_.mask_rows = input(GGML_TYPE_F16, key_.n_kv, key_.n_rows, "mask_rows");
        }
    }
    if (key_.kv == KvUse::store) {
        inputs_.cells = input(GGML_TYPE_I64, key_.n_tokens, 1, "cells");
    }

    ggml_tensor * x = ggml_get_rows(ctx_.get(), model_.weights().embed, inputs_.tokens); // [E, T·S]
    for (int32_t il = 0; il < hp_.n_layer && x != nullptr; il++) {
        x = model_.arch().attention(*this, il, x);
        if (x != nullptr) {
            x = model_.arch().ffn(*this, il, x);
            tap(Tap::resid_post, il, x);
        }
    }
    if (x != nullptr) {
        build_head(x);
    }
}

ggml_tensor * Graph::input(ggml_type type, int64_t ne0, int64_t ne1, const char * name) {
    ggml_tensor * t = ggml_new_tensor_2d(ctx_.get(), type, ne0, ne1);
    ggml_set_input(t);
    ggml_set_name(t, name);
    return t;
}

bool Graph::rows_restricted(int32_t il) const {
    return il == hp_.n_layer - 1 && key_.n_rows < key_.n_tokens && !last_layer_tapped_;
}

int64_t Graph::n_query_rows(int32_t il) const {
    return (rows_restricted(il) ? key_.n_rows : key_.n_tokens) * key_.n_streams;
}

const LayerWeights & Graph::layer(int32_t il) const { return model_.weights().layers[static_cast<size_t>(il)]; }

ggml_tensor * Graph::rms_norm(ggml_tensor * x, ggml_tensor * weight) {
    return ggml_mul(ctx_.get(), ggml_rms_norm(ctx_.get(), x, hp_.norm_eps), weight);
}

ggml_tensor * Graph::linear(const Linear & part, ggml_tensor * x) {
    ggml_tensor * y = ggml_mul_mat(ctx_.get(), part.w, x);
    if (part.scale != nullptr) {
        y = ggml_mul(ctx_.get(), y, part.scale);
    }
    return part.bias != nullptr ? ggml_add(ctx_.get(), y, part.bias) : y;
}

ggml_tensor * Graph::add(ggml_tensor * a, ggml_tensor * b) { return ggml_add(ctx_.get(), a, b); }

ggml_tensor * Graph::swiglu(ggml_tensor * gate, ggml_tensor * up) { return ggml_swiglu_split(ctx_.get(), gate, up); }

ggml_tensor * Graph::heads(ggml_tensor * x) {
    return ggml_reshape_3d(ctx_.get(), x, hp_.head_dim, x->ne[0] / hp_.head_dim, x->ne[1]);
}

ggml_tensor * Graph::query_rows(int32_t il, ggml_tensor * x) {
    return rows_restricted(il) ? ggml_get_rows(ctx_.get(), x, inputs_.rows) : x;
}

ggml_tensor * Graph::rope(int32_t il, ggml_tensor * x, ggml_tensor * positions) {
    const RopeParams & r = hp_.rope;
    return ggml_rope_ext(ctx_.get(), x, positions, layer(il).rope_factors, r.n_dims,
                         r.kind == RopeKind::neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL, r.n_ctx_orig, r.freq_base,
                         r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow);
}

ggml_tensor * Graph::rope_q(int32_t il, ggml_tensor * q) {
    return rope(il, q, rows_restricted(il) ? inputs_.positions_rows : inputs_.positions);
}

ggml_tensor * Graph::rope_k(int32_t il, ggml_tensor * k) { return rope(il, k, inputs_.positions); }

void Graph::tap(Tap kind, int32_t il, ggml_tensor * x) {
    if (key_.has_tap(kind, il)) {
        ggml_set_name(x, tap_name(kind, il).c_str());
        ggml_build_forward_expand(graph_, x);
        taps_.push_back({ { kind, il }, x });
    }
}

void Graph::tap_copy(Tap kind, int32_t il, ggml_tensor * x) {
    if (key_.has_tap(kind, il)) {
        ggml_tensor * copy = ggml_new_tensor_4d(ctx_.get(), GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], x->ne[3]);
        tap(kind, il, ggml_cpy(ctx_.get(), x, copy));
    }
}

void Graph::build_head(ggml_tensor * x) {
    const bool selected = n_query_rows(hp_.n_layer - 1) == key_.n_rows * key_.n_streams;
    if (key_.output == OutputKind::none || key_.n_rows == 0) {
        ggml_build_forward_expand(graph_, x);
        return;
    }
    if (!selected) {
        x = ggml_get_rows(ctx_.get(), x, inputs_.rows); // [E, R·S]
    }
    outputs_.logits = linear(model_.weights().output, rms_norm(x, model_.weights().output_norm)); // [V, R·S]
    if (key_.cfg_scale > 0.0f) {
        // un + (w + 1)(cond − un) = (w + 1)·cond − w·un (arXiv 2207.12598, as LLaDA uses it)
        ggml_tensor * both = outputs_.logits;
        const size_t  half = both->nb[1] * static_cast<size_t>(key_.n_rows);
        ggml_tensor * cond = ggml_view_2d(ctx_.get(), both, both->ne[0], key_.n_rows, both->nb[1], 0);
        ggml_tensor * un   = ggml_view_2d(ctx_.get(), both, both->ne[0], key_.n_rows, both->nb[1], half);
        outputs_.logits    = ggml_add(ctx_.get(), ggml_scale(ctx_.get(), cond, key_.cfg_scale + 1.0f),
                                      ggml_scale(ctx_.get(), un, -key_.cfg_scale)); // [V, R]
    }
    ggml_set_name(outputs_.logits, "logits");
    if (key_.output == OutputKind::summary) {
        build_summary();
        return;
    }
    ggml_set_output(outputs_.logits);
    ggml_build_forward_expand(graph_, outputs_.logits);
}

// Top two and expectation are enough: with l, p the largest logit and its probability, ln Z = l − ln p and the entropy is
// ln Z − Σ p_i·l_i.
void Graph::build_summary() {
    ggml_context * ctx    = ctx_.get();
    ggml_tensor *  logits = outputs_.logits;
    const int64_t  n      = logits->ne[1];
    const int64_t  V      = logits->ne[0];

    ggml_tensor * probs  = ggml_soft_max(ctx, logits);                 // [V, R·S]
    outputs_.top_ids     = ggml_top_k(ctx, logits, V > 1 ? 2 : 1);     // [2, R·S]
    outputs_.top_logits  = ggml_get_rows(ctx, ggml_reshape_3d(ctx, logits, 1, V, n), outputs_.top_ids);
    outputs_.top_probs   = ggml_get_rows(ctx, ggml_reshape_3d(ctx, probs, 1, V, n), outputs_.top_ids);
    outputs_.mean_logit  = ggml_sum_rows(ctx, ggml_mul(ctx, probs, logits));
    for (ggml_tensor * t : { outputs_.top_ids, outputs_.top_logits, outputs_.top_probs, outputs_.mean_logit }) {
        ggml_set_output(t);
        ggml_build_forward_expand(graph_, t);
    }
}

} // namespace buoy
