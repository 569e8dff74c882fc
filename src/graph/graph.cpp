#include "graph/graph.h"

#include "graph/kv-store.h"
#include "kernel/matmul.h"
#include "kernel/summary.h"
#include "model/model.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

constexpr int64_t n_pieces_max = 16; // of a long pass

} // namespace

bool GraphKey::operator==(const GraphKey & other) const {
    return n_tokens == other.n_tokens && n_streams == other.n_streams && n_rows == other.n_rows && n_kv == other.n_kv &&
           all_rows == other.all_rows && masked == other.masked && cfg_scale == other.cfg_scale && kv == other.kv &&
           output == other.output && taps == other.taps && n_tap_heads == other.n_tap_heads &&
           n_tap_rows == other.n_tap_rows && n_regions == other.n_regions && edited == other.edited &&
           probed == other.probed && edits_by_head == other.edits_by_head;
}

size_t Graph::node_limit(const HParams & hp) {
    // a block takes about 40 nodes, and as many again for every further piece of a long pass; a tapped one, which is not divided,
    // about 200 more; experts 40, and two for each one used
    const auto n_block = static_cast<size_t>(64 + (hp.experts.n_expert > 0 ? 40 + 2 * hp.experts.n_used : 0));
    return static_cast<size_t>(hp.n_layer) * n_block * n_pieces_max + 256;
}

Graph::Graph(const Model & model, const GraphKey & key, KvStore * store, const std::vector<bool> & flash)
    : model_(model), hp_(model.hparams()), key_(key), store_(store), flash_(flash) {
    // metadata only; what of it is not needed is never touched
    const size_t n = node_limit(hp_);
    ctx_.reset(ggml_init({ggml_tensor_overhead() * n + ggml_graph_overhead_custom(n, false), nullptr, true}));
    graph_ = ggml_new_graph_custom(ctx_.get(), n, false);
    for (int32_t il = 0; il < hp_.n_layer; il++) {
        const bool on_cpu = model_.attention_device(il) == model_.placement().cpu();
        flash_on_cpu_     = flash_on_cpu_ || (on_cpu && flash_[static_cast<size_t>(il)]);
    }
    make_inputs();

    ggml_tensor * x = ggml_get_rows(ctx_.get(), model_.weights().embed, inputs_.tokens); // [E, T·S]
    for (int32_t il = 0; il < hp_.n_layer; il++) {
        const KeysValues kv = build_keys(il, x);
        show_dropped_rows(il, x, kv);
        if (n_query_rows(il) == 0) { // nobody asked for a row: the last layer only had keys and values to store
            return;
        }
        x = build_queries(il, x, kv);
        tap({Tap::resid_post, il}, x);
    }
    build_head(x);
}

void Graph::make_inputs() {
    const int64_t n_all  = key_.n_tokens * key_.n_streams;
    const int64_t n_rows = key_.n_rows * key_.n_streams;
    inputs_.tokens       = input(GGML_TYPE_I32, n_all, 1, "tokens");
    inputs_.positions    = input(GGML_TYPE_I32, n_all, 1, "positions");
    if (key_.masked) {
        inputs_.mask = input(GGML_TYPE_F16, key_.n_kv, tile_rows(key_.n_tokens), "mask");
    }
    if (key_.n_rows > 0 && !key_.all_rows) {
        inputs_.rows = input(GGML_TYPE_I32, n_rows, 1, "rows");
    }
    if (key_.n_rows > 0 && rows_restricted(hp_.n_layer - 1)) {
        inputs_.positions_rows = input(GGML_TYPE_I32, n_rows, 1, "positions_rows");
        if (key_.masked) {
            inputs_.mask_rows = input(GGML_TYPE_F16, key_.n_kv, tile_rows(key_.n_rows), "mask_rows");
        }
    }
    if (key_.kv == KvUse::store) {
        inputs_.cells = input(GGML_TYPE_I64, key_.n_tokens, 1, "cells");
    }
}

// Long passes are built in equal pieces, so that their widest activations exist for one piece at a time. Taps and edits want whole
// tensors, and streams lie behind each other, so those are not divided.
int64_t Graph::piece_size(int32_t il, int64_t n) const {
    constexpr int64_t rows_per_piece = 256;
    const int64_t     n_pieces       = std::min((n + rows_per_piece - 1) / rows_per_piece, n_pieces_max);
    return key_.n_streams > 1 || is_watched(il) ? n : (n + n_pieces - 1) / n_pieces;
}

// The rows attention computes for n: ggml's flash attention on a CPU works in tiles of 64 queries and is several times slower
// below that, so a block's worth of rows is filled up to a tile.
int64_t Graph::tile_rows(int64_t n) const {
    constexpr int64_t tile = 64, worth_it = 10;
    const bool        quantised =
        key_.kv == KvUse::store && (ggml_is_quantized(store_->k(0)->type) || ggml_is_quantized(store_->v(0)->type));
    return flash_on_cpu_ && !model_.use_kernels() && !quantised && n >= worth_it && n < tile ? tile : n;
}

// Restricts what rope() and attention() see to rows [first, first + n) of n_all.
void Graph::enter(const Rows & rows, int64_t first, int64_t n, int64_t n_all) {
    rows_ = rows;
    if (n == n_all) {
        return;
    }
    const auto at   = [first](const ggml_tensor * t, int dim) { return t->nb[dim] * static_cast<size_t>(first); };
    rows_.positions = ggml_view_1d(ctx_.get(), rows.positions, n, at(rows.positions, 0));
    if (rows.mask != nullptr) {
        rows_.mask = ggml_view_2d(ctx_.get(), rows.mask, rows.mask->ne[0], n, rows.mask->nb[1], at(rows.mask, 1));
    }
    if (rows.cells != nullptr) {
        rows_.cells = ggml_view_1d(ctx_.get(), rows.cells, n, at(rows.cells, 0));
    }
}

KeysValues Graph::build_keys(int32_t il, ggml_tensor * x) {
    const Rows    all   = {inputs_.positions, inputs_.mask, inputs_.cells};
    const int64_t n_all = x->ne[1];
    const int64_t piece =
        key_.kv == KvUse::store ? piece_size(il, n_all) : n_all; // keys that are not stored must stay together
    KeysValues kv;
    for (int64_t first = 0; first < n_all; first += piece) {
        const int64_t n = std::min(piece, n_all - first);
        ggml_tensor * part =
            n == n_all ? x : ggml_view_2d(ctx_.get(), x, x->ne[0], n, x->nb[1], x->nb[1] * static_cast<size_t>(first));
        enter(all, first, n, n_all);
        kv = model_.arch().keys(*this, il, part);
        if (key_.kv == KvUse::store) {
            ggml_build_forward_expand(graph_, store_->write(ctx_.get(), store_->k(il), kv.k, rows_.cells));
            ggml_build_forward_expand(graph_, store_->write(ctx_.get(), store_->v(il), kv.v, rows_.cells));
        }
    }
    return kv;
}

ggml_tensor * Graph::build_queries(int32_t il, ggml_tensor * x, KeysValues kv) {
    Rows wanted = {inputs_.positions, inputs_.mask, nullptr};
    if (rows_restricted(il)) {
        x      = ggml_get_rows(ctx_.get(), x, inputs_.rows); // [E, R·S]
        wanted = {inputs_.positions_rows, inputs_.mask_rows, nullptr};
        kv.h   = nullptr;
    }
    const int64_t n_all = x->ne[1];
    const int64_t piece = piece_size(il, n_all);
    if (piece == n_all) {
        enter(wanted, 0, n_all, n_all);
        return model_.arch().ffn(*this, il, model_.arch().queries(*this, il, x, kv));
    }
    kv.h = nullptr;
    x    = own_rows(il, x);
    for (int64_t first = 0; first < n_all; first += piece) {
        const int64_t n    = std::min(piece, n_all - first);
        ggml_tensor * part = ggml_view_2d(ctx_.get(), x, x->ne[0], n, x->nb[1], x->nb[1] * static_cast<size_t>(first));
        enter(wanted, first, n, n_all);
        ggml_tensor * done = model_.arch().ffn(*this, il, model_.arch().queries(*this, il, part, kv));
        // a piece's rows are read by nobody else in this layer, so its result takes their place
        pinned_.push_back({il, ggml_cpy(ctx_.get(), done, part)});
        ggml_build_forward_expand(graph_, pinned_.back().tensor);
    }
    return x;
}

// The rows in memory of the layer's device, where pieces can be written into them.
ggml_tensor * Graph::own_rows(int32_t il, ggml_tensor * x) {
    const bool same = own_rows_.tensor == x && model_.attention_device(own_rows_.layer) == model_.attention_device(il);
    if (model_.placement().cpu_only() || same) {
        return x;
    }
    own_rows_ = {il, ggml_cont(ctx_.get(), x)};
    pinned_.push_back(own_rows_);
    return own_rows_.tensor;
}

ggml_tensor * Graph::input(ggml_type type, int64_t ne0, int64_t ne1, const char * name) {
    ggml_tensor * t = ggml_new_tensor_2d(ctx_.get(), type, ne0, ne1);
    ggml_set_input(t);
    ggml_set_name(t, name);
    return t;
}

bool Graph::is_watched(int32_t il) const {
    return key_.is_edited(il) ||
           std::any_of(key_.taps.begin(), key_.taps.end(), [il](const TapPoint & point) { return point.layer == il; });
}

bool Graph::rows_restricted(int32_t il) const {
    return il == hp_.n_layer - 1 && !key_.all_rows && !key_.is_edited(il) && !key_.has_tap(Tap::resid_post, il);
}

int64_t Graph::n_query_rows(int32_t il) const {
    return (rows_restricted(il) ? key_.n_rows : key_.n_tokens) * key_.n_streams;
}

const LayerWeights & Graph::layer(int32_t il) const { return model_.weights().layers[static_cast<size_t>(il)]; }

ggml_tensor * Graph::rms_norm(ggml_tensor * x, ggml_tensor * weight) {
    return ggml_mul(ctx_.get(), ggml_rms_norm(ctx_.get(), x, hp_.norm_eps), weight);
}

// One row alone is bound by reading the weights: there ggml's dot products are as good.
bool Graph::is_packed(const ggml_tensor * w, const ggml_tensor * x) const {
    return model_.use_packed() && x->ne[1] > 1 && can_mul_packed(w->type, w->ne[0]) &&
           ggml_backend_buffer_is_host(w->buffer);
}

ggml_tensor * Graph::packed(ggml_tensor * x) {
    if (packed_.rows != x) {
        packed_ = {x, pack_rows(ctx_.get(), x)};
    }
    return packed_.packed;
}

ggml_tensor * Graph::linear(const Linear & part, ggml_tensor * x) {
    ggml_tensor * y = is_packed(part.w, x) ? mul_packed(ctx_.get(), part.w, packed(x), x->ne[1])
                                           : ggml_mul_mat(ctx_.get(), part.w, x);
    if (part.scale != nullptr) {
        y = ggml_mul(ctx_.get(), y, part.scale);
    }
    return part.bias != nullptr ? ggml_add(ctx_.get(), y, part.bias) : y;
}

ggml_tensor * Graph::add(ggml_tensor * a, ggml_tensor * b) { return ggml_add(ctx_.get(), a, b); }

ggml_tensor * Graph::swiglu(const Linear & gate, const Linear & up, ggml_tensor * x) {
    const bool plain = gate.scale == nullptr && gate.bias == nullptr && up.scale == nullptr && up.bias == nullptr;
    if (plain && is_packed(gate.w, x) && is_packed(up.w, x)) {
        return mul_packed_gated(ctx_.get(), gate.w, up.w, packed(x), x->ne[1]);
    }
    return ggml_swiglu_split(ctx_.get(), linear(gate, x), linear(up, x));
}

ggml_tensor * Graph::heads(ggml_tensor * x) {
    return ggml_reshape_3d(ctx_.get(), x, hp_.head_dim, x->ne[0] / hp_.head_dim, x->ne[1]);
}

ggml_tensor * Graph::rope(int32_t il, ggml_tensor * x) {
    const RopeParams & r = hp_.rope;
    return ggml_rope_ext(ctx_.get(), x, rows_.positions, layer(il).rope_factors, r.n_dims,
                         r.kind == RopeKind::neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL, r.n_ctx_orig,
                         r.freq_base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow);
}

void Graph::build_head(ggml_tensor * x) {
    const bool selected = key_.all_rows || rows_restricted(hp_.n_layer - 1);
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

    if (model_.use_kernels()) {
        outputs_.summaries = summarize_rows(ctx, logits);
        ggml_set_output(outputs_.summaries);
        ggml_build_forward_expand(graph_, outputs_.summaries);
        return;
    }
    ggml_tensor * probs = ggml_soft_max(ctx, logits);             // [V, R·S]
    outputs_.top_ids    = ggml_top_k(ctx, logits, V > 1 ? 2 : 1); // [2, R·S]
    outputs_.top_logits = ggml_get_rows(ctx, ggml_reshape_3d(ctx, logits, 1, V, n), outputs_.top_ids);
    outputs_.top_probs  = ggml_get_rows(ctx, ggml_reshape_3d(ctx, probs, 1, V, n), outputs_.top_ids);
    outputs_.mean_logit = ggml_sum_rows(ctx, ggml_mul(ctx, probs, logits));
    for (ggml_tensor * t : {outputs_.top_ids, outputs_.top_logits, outputs_.top_probs, outputs_.mean_logit}) {
        ggml_set_output(t);
        ggml_build_forward_expand(graph_, t);
    }
}

} // namespace buoy
