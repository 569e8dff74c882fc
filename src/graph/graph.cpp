// A pass from its inputs to its outputs. rows.cpp says which rows are built, layers.cpp what blocks are made of.

#include "graph/graph.h"

#include "graph/kv-store.h"
#include "graph/logit-store.h"
#include "kernel/soft-embedding.h"
#include "kernel/summary.h"

#include <set>

namespace buoy {

size_t Graph::node_limit(const HParams & hp, const GraphKey & key) {
    // a block takes about 40 nodes, and as many again for every further piece of a long pass; experts 90 with an FFN beside them, and
    // two for each one used; a sequence's own attention about 30, a tap or an edited layer 200
    constexpr size_t n_pieces = 16, n_attention = 48, n_watched = 220;
    const auto       n_layers = static_cast<size_t>(hp.n_layer);
    const auto       n_block  = static_cast<size_t>(64 + (hp.experts.n_expert > 0 ? 96 + 2 * hp.experts.n_used : 0));
    size_t           n        = n_layers * n_block * n_pieces + 256;
    for (size_t s = 0; s < key.sequences.size(); s++) {
        n += s > 0 ? n_layers * n_attention : 0;
        n += n_watched * key.sequences[s].edited.size();
        n += key.refresh || key.reset ? n_layers * n_watched : 0;
        for (const ObserverKey & observer : key.sequences[s].observers) {
            n += n_watched * observer.taps.size();
        }
    }
    return n;
}

Graph::Graph(const LoadedModel & model, const GraphRecipe & recipe, const GraphKey & key, const KvStore & store,
             const RowStore & row_store, const LogitStore & logit_store, const std::vector<bool> & flash)
    : model_(model), hp_(model.hparams()), recipe_(recipe), key_(key), store_(store), row_store_(row_store),
      logit_store_(logit_store), flash_(flash) {
    // metadata only; what of it is not needed is never touched
    const size_t n = node_limit(hp_, key_);
    ctx_.reset(ggml_init({ggml_tensor_overhead() * n + ggml_graph_overhead_custom(n, false), nullptr, true}));
    graph_ = ggml_new_graph_custom(ctx_.get(), n, false);
    for (int32_t il = 0; il < hp_.n_layer; il++) {
        const bool on_cpu = model_.attention_device(il) == model_.placement().cpu();
        flash_on_cpu_     = flash_on_cpu_ || (on_cpu && flash_[static_cast<size_t>(il)]);
    }
    make_inputs();

    ggml_tensor * x = key_.layer_first > 0       ? stored_input()
                      : recipe_.embed != nullptr ? recipe_.embed(*this)
                                                 : embed_tokens(); // [E, N]
    for (int32_t il = key_.layer_first; il < hp_.n_layer; il++) {
        keep_input(il, x);
        x = recipe_.block(*this, il, x);
        if (x == nullptr) { // nobody asked for a row: the last layer only had keys and values to store
            return;
        }
        tap_residual(il, x);
    }
    build_head(x);
}

ggml_tensor * Graph::input(ggml_type type, int64_t ne0, int64_t ne1, const char * name) {
    ggml_tensor * t = ggml_new_tensor_2d(ctx_.get(), type, ne0, ne1);
    ggml_set_input(t);
    ggml_set_name(t, name);
    return t;
}

void Graph::make_inputs() {
    const int64_t     n_rows     = key_.n_rows();
    const bool        restricted = n_rows > 0 && rows_restricted(hp_.n_layer - 1);
    std::set<int32_t> windows;
    for (const LayerParams & layer : hp_.layers) {
        windows.insert(layer.window);
    }
    inputs_.tokens    = input(GGML_TYPE_I32, key_.n_tokens(), 1, "tokens");
    inputs_.positions = input(GGML_TYPE_I32, key_.n_tokens(), 1, "positions");
    if (n_rows > 0 && !key_.all_rows) {
        inputs_.rows = input(GGML_TYPE_I32, n_rows, 1, "rows");
    }
    if (restricted) {
        inputs_.positions_rows = input(GGML_TYPE_I32, n_rows, 1, "positions_rows");
    }
    if (hp_.query_beta > 0.0f) {
        inputs_.scales      = input(GGML_TYPE_F32, 1, key_.n_tokens(), "scales");
        inputs_.scales_rows = restricted ? input(GGML_TYPE_F32, 1, n_rows, "scales_rows") : nullptr;
    }
    bool stored = false;
    for (size_t s = 0; s < key_.sequences.size(); s++) {
        const SequenceKey & seq = key_.sequences[s];
        SequenceInputs &    in  = inputs_.sequences.emplace_back();
        in.observers.resize(seq.observers.size());
        stored       = stored || seq.kv == KvUse::store;
        in.condition = seq.conditioned ? input(GGML_TYPE_F32, 1, 1, "condition") : nullptr;
        in.draws     = seq.draws ? input(GGML_TYPE_F32, 2, seq.n_rows, "draws") : nullptr;
        for (const int32_t window : windows) {
            if (!seq.masked && window == 0) {
                continue;
            }
            in.masks[window] = input(GGML_TYPE_F16, seq.n_kv, tile_rows(s, seq.n_tokens), "mask");
            if (restricted && seq.n_rows > 0) {
                in.masks_rows[window] = input(GGML_TYPE_F16, seq.n_kv, tile_rows(s, seq.n_rows), "mask_rows");
            }
        }
    }
    if (stored) {
        inputs_.cells = input(GGML_TYPE_I64, key_.n_tokens(), 1, "cells");
    }
}

ggml_tensor * Graph::embed_tokens() { return ggml_get_rows(ctx_.get(), weights().embed, inputs_.tokens); }

ggml_tensor * Graph::extra_input() {
    if (key_.extra && inputs_.extra == nullptr) {
        inputs_.extra = input(GGML_TYPE_F32, hp_.n_embd, key_.n_tokens(), "extra");
    }
    return inputs_.extra;
}

ggml_tensor * Graph::mean_embedding(size_t sequence) {
    const SequenceKey & seq = key_.sequences[sequence];
    if (!seq.conditioned) {
        return nullptr;
    }
    ggml_tensor * logits = logit_store_.rows(ctx_.get(), seq.sequence, seq.n_tokens); // [V, T]
    return buoy::mean_embedding(ctx_.get(), weights().embed, logits, inputs_.sequences[sequence].condition);
}

void Graph::build_head(ggml_tensor * x) {
    const bool selected = key_.all_rows || rows_restricted(hp_.n_layer - 1);
    if (key_.n_rows() == 0) {
        ggml_build_forward_expand(graph_, x);
        return;
    }
    if (!selected) {
        x = ggml_get_rows(ctx_.get(), x, inputs_.rows); // [E, rows]
    }
    rows_.needed = true;
    ggml_tensor * logits =
        recipe_.head != nullptr ? recipe_.head(*this, x) : linear(weights().output, rms_norm(x, weights().output_norm));
    n_head_rows_ = logits->ne[1];
    ggml_set_name(logits, "logits"); // [V, rows]

    for (size_t s = 0; s < key_.sequences.size();) {
        const SequenceKey & seq = key_.sequences[s];
        keep_logits(s, logits);
        if (seq.output == OutputKind::none) {
            s++;
        } else if (seq.draws) {
            add_output(s, s + 1, columns(logits, 1, span(s, true)));
            s++;
        } else if (seq.guidance) {
            add_output(s, s + 1, guided(s, logits));
            s++;
        } else { // as many as want the same
            size_t last = s + 1;
            while (last < key_.sequences.size() && key_.sequences[last].output == seq.output &&
                   !key_.sequences[last].guidance && !key_.sequences[last].draws && !key_.sequences[last].keeps) {
                last++;
            }
            Span rows = span(s, true);
            for (size_t next = s + 1; next < last; next++) {
                rows.n += span(next, true).n;
            }
            add_output(s, last, columns(logits, 1, rows));
            s = last;
        }
    }
}

// un + (w + 1)(cond − un) = (w + 1)·cond − w·un (arXiv 2207.12598, as LLaDA uses it)
ggml_tensor * Graph::guided(size_t sequence, ggml_tensor * logits) {
    const Guidance & guidance = *key_.sequences[sequence].guidance;
    ggml_tensor *    cond     = columns(logits, 1, span(sequence, true));
    ggml_tensor *    un       = columns(logits, 1, span(guidance.unconditional, true));
    return ggml_add(ctx_.get(), scale(cond, guidance.scale + 1.0f), scale(un, -guidance.scale)); // [V, R]
}

void Graph::keep_logits(size_t sequence, ggml_tensor * logits) {
    const SequenceKey & seq = key_.sequences[sequence];
    if (seq.keeps) {
        ggml_tensor * to = logit_store_.rows(ctx_.get(), seq.sequence, seq.n_rows);
        ggml_build_forward_expand(graph_, ggml_cpy(ctx_.get(), columns(logits, 1, span(sequence, true)), to));
    }
}

void Graph::add_output(size_t first, size_t last, ggml_tensor * logits) {
    GraphOutput output;
    output.first  = first;
    output.last   = last;
    output.logits = logits;
    if (key_.sequences[first].output == OutputKind::summary) {
        summarize(output);
    } else {
        ggml_set_output(logits);
        ggml_build_forward_expand(graph_, logits);
    }
    outputs_.push_back(output);
}

// Top two and expectation are enough: with l, p the largest logit and its probability, ln Z = l − ln p and the entropy is
// ln Z − Σ p_i·l_i.
void Graph::summarize(GraphOutput & output) {
    ggml_context * ctx    = ctx_.get();
    ggml_tensor *  logits = output.logits;
    const int64_t  n      = logits->ne[1];
    const int64_t  V      = logits->ne[0];

    if (const SequenceKey & seq = key_.sequences[output.first]; seq.draws || model_.use_kernels()) {
        output.summaries =
            seq.draws ? draw_rows(ctx, logits, inputs_.sequences[output.first].draws) : summarize_rows(ctx, logits);
        ggml_set_output(output.summaries);
        ggml_build_forward_expand(graph_, output.summaries);
        return;
    }
    ggml_tensor * probs = ggml_soft_max(ctx, logits);             // [V, n]
    output.top_ids      = ggml_top_k(ctx, logits, V > 1 ? 2 : 1); // [2, n]
    output.top_logits   = ggml_get_rows(ctx, ggml_reshape_3d(ctx, logits, 1, V, n), output.top_ids);
    output.top_probs    = ggml_get_rows(ctx, ggml_reshape_3d(ctx, probs, 1, V, n), output.top_ids);
    output.mean_logit   = ggml_sum_rows(ctx, ggml_mul(ctx, probs, logits));
    for (ggml_tensor * t : {output.top_ids, output.top_logits, output.top_probs, output.mean_logit}) {
        ggml_set_output(t);
        ggml_build_forward_expand(graph_, t);
    }
}

} // namespace buoy
