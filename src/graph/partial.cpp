// Passes that choose what they compute while they run: PartialRefresh and DriftReset. One sequence, full attention, with a store; its rows
// may be in any order, as all of them see the same keys.

#include "graph/graph.h"
#include "graph/kv-store.h"
#include "graph/row-store.h"

namespace buoy {

namespace {

constexpr float tiny = 1e-30f; // where both are 0 the cosine is

} // namespace

ggml_tensor * Graph::cosine(ggml_tensor * dot, ggml_tensor * a, ggml_tensor * b) {
    return ggml_div(ctx_.get(), dot,
                    ggml_sqrt(ctx_.get(), ggml_scale_bias(ctx_.get(), ggml_mul(ctx_.get(), a, b), 1.0f, tiny)));
}

// PartialRefresh

// An edited layer is computed whole: edits are for all of its rows.
bool Graph::is_partial(int32_t il) const {
    return key_.refresh && il > 0 && !(key_.refresh->prompt && key_.refresh->answer) &&
           !key_.sequences[0].is_edited(il);
}

ggml_tensor * Graph::position_span(const Span & span) {
    return ggml_view_1d(ctx_.get(), inputs_.positions, span.n,
                        inputs_.positions->nb[0] * static_cast<size_t>(span.first));
}

ggml_tensor * Graph::new_values(ggml_tensor * x, const Span & span, const KeysOf & make) {
    enter({.positions = inputs_.positions, .cells = inputs_.cells, .n_all = x->ne[1]}, span.first, span.n);
    return make(columns(x, 1, span)).v;
}

// The positions of the answer whose values, over all heads, have turned most. v [D, Hkv, n] -> i32 [n_drifted]
ggml_tensor * Graph::drifted(int32_t il, ggml_tensor * v) {
    ggml_context *         ctx = ctx_.get();
    const PartialRefresh & r   = *key_.refresh;
    const int64_t          n   = v->ne[2];
    ggml_tensor *          was = store_.read(ctx, store_.v(il), key_.sequences[0].sequence, r.n_prompt + n);
    was                        = ggml_view_3d(ctx, was, was->ne[0], n, was->ne[2], was->nb[1], was->nb[2],
                                              was->nb[1] * static_cast<size_t>(r.n_prompt));
    was = was->type == GGML_TYPE_F32 ? ggml_cont(ctx, was) : ggml_cast(ctx, was, GGML_TYPE_F32); // [D, n, Hkv]
    ggml_tensor * now     = ggml_cont(ctx, by_head(v));
    const auto    product = [&](ggml_tensor * a, ggml_tensor * b) {
        return ggml_cont(ctx, mean_over(2, ggml_sum_rows(ctx, ggml_mul(ctx, a, b)))); // [1, n]
    };
    ggml_tensor * similarity = cosine(product(now, was), product(now, now), product(was, was));
    ggml_tensor * chosen     = ggml_top_k(ctx, ggml_reshape_1d(ctx, ggml_neg(ctx, similarity), n), r.n_drifted);
    ggml_tensor * answer     = ggml_reshape_2d(ctx, position_span({r.n_prompt, n}), 1, n);
    chosen                   = ggml_get_rows(ctx, answer, chosen); // [1, n_drifted]
    ggml_set_output(chosen);
    refreshes_.push_back({il, chosen});
    return ggml_reshape_1d(ctx, chosen, r.n_drifted);
}

void Graph::partial_keys(int32_t il, ggml_tensor * x, const KeysOf & make) {
    ggml_context *         ctx = ctx_.get();
    const PartialRefresh & r   = *key_.refresh;
    const Span             prompt{0, r.n_prompt}, answer{r.n_prompt, x->ne[1] - r.n_prompt};
    const auto             store_values = [&](ggml_tensor * v) {
        ggml_build_forward_expand(graph_, store_.write(ctx, store_.v(il), v, rows_.cells));
    };
    partial_ = {};
    if (r.prompt && prompt.n > 0) {
        store_values(new_values(x, prompt, make));
        partial_.positions = position_span(prompt);
    }
    if (r.answer || r.values) {
        ggml_tensor * v      = new_values(x, answer, make);
        ggml_tensor * chosen = r.answer ? position_span(answer) : r.n_drifted > 0 ? drifted(il, v) : nullptr;
        if (chosen != nullptr) {
            ggml_build_forward_expand(graph_, chosen); // before what it compares with is gone
            partial_.positions =
                partial_.positions == nullptr ? chosen : ggml_concat(ctx, partial_.positions, chosen, 0);
        }
        store_values(v);
    }
    if (partial_.positions == nullptr) {
        return;
    }
    partial_.x = ggml_get_rows(ctx, x, partial_.positions); // [E, n]
    enter({.positions = partial_.positions, .n_all = partial_.x->ne[1]}, 0, partial_.x->ne[1]);
    ggml_tensor * keys = store_.read(ctx, store_.k(il), key_.sequences[0].sequence, store_.n_ctx());
    ggml_build_forward_expand(graph_, store_.write(ctx, keys, make(partial_.x).k, partial_.positions));
}

ggml_tensor * Graph::partial_rows(int32_t il, ggml_tensor * x, const RestOf & make) {
    const int32_t sequence = key_.sequences[0].sequence;
    if (partial_.positions != nullptr) {
        const int64_t n = partial_.x->ne[1];
        enter({.positions = partial_.positions, .n_all = n}, 0, n);
        ggml_tensor * added = ggml_sub(ctx_.get(), make(partial_.x), partial_.x);
        ggml_tensor * to    = row_store_.rows(ctx_.get(), RowStore::Kind::added, il, sequence, store_.n_ctx());
        ggml_build_forward_expand(graph_, ggml_set_rows(ctx_.get(), to, added, partial_.positions));
        n_layer_rows_ += n;
    }
    return add(x, row_store_.rows(ctx_.get(), RowStore::Kind::added, il, sequence, x->ne[1]));
}

void Graph::keep_added(int32_t il, ggml_tensor * before, ggml_tensor * after) {
    if (key_.refresh && il > 0) {
        ggml_tensor * added = ggml_sub(ctx_.get(), after, before);
        ggml_build_forward_expand(
            graph_, ggml_set_rows(ctx_.get(), row_store_.all(RowStore::Kind::added, il), added, inputs_.cells));
    }
}

// DriftReset

ggml_tensor * Graph::stored_input() {
    return ggml_cont(ctx_.get(), row_store_.rows(ctx_.get(), RowStore::Kind::input, key_.layer_first,
                                                 key_.sequences[0].sequence, key_.n_tokens()));
}

// Whoever runs the graph may stop it here.
void Graph::keep_input(int32_t il, ggml_tensor * x) {
    if (!key_.reset || il <= key_.layer_first) { // the first layer's is the embedding, or where it came from
        return;
    }
    ggml_tensor * kept = ggml_set_rows(ctx_.get(), row_store_.all(RowStore::Kind::input, il), x, inputs_.cells);
    ggml_build_forward_expand(graph_, kept);
    if (drift_ != nullptr) {
        resets_.push_back({il, drift_, kept});
        drift_ = nullptr;
    }
}

// Where the last layer drifts, nothing follows.
bool Graph::is_compared(int32_t il) const { return key_.reset && key_.reset->n_track > 0 && il < hp_.n_layer - 1; }

// The attention [keys, n, H] of queries [D·H, n] to what is stored now.
ggml_tensor * Graph::tracked_pattern(int32_t il, ggml_tensor * queries) {
    ggml_context *      ctx    = ctx_.get();
    const LayerParams & p      = hp_.layer(il);
    const SequenceKey & seq    = key_.sequences[0];
    ggml_tensor *       q      = ggml_reshape_3d(ctx, queries, p.head_dim, p.n_head, queries->ne[1]);
    ggml_tensor *       k      = store_.read(ctx, store_.k(il), seq.sequence, seq.n_kv);
    ggml_tensor *       scores = ggml_mul_mat(ctx, k, ggml_cont(ctx, by_head(q)));
    ggml_prec_set_acc(scores, GGML_PREC_F32);
    float scale = p.scale;
    if (p.softcap > 0.0f) {
        scores = softcap(this->scale(scores, scale), p.softcap);
        scale  = 1.0f;
    }
    const auto    hidden  = inputs_.sequences[0].masks.find(p.window);
    ggml_tensor * pattern = ggml_soft_max_ext(
        ctx, scores, hidden != inputs_.sequences[0].masks.end() ? hidden->second : nullptr, scale, 0.0f);
    return ggml_view_3d(ctx, pattern, key_.reset->n_keys, pattern->ne[1], pattern->ne[2], pattern->nb[1],
                        pattern->nb[2], 0);
}

// Before this pass's keys and queries take the place of those stored.
void Graph::track_before(int32_t il) {
    if (is_compared(il)) {
        if (inputs_.track_cells == nullptr) {
            inputs_.track_cells = input(GGML_TYPE_I32, key_.reset->n_track, 1, "track_cells");
            inputs_.track_rows  = input(GGML_TYPE_I32, key_.reset->n_track, 1, "track_rows");
        }
        tracked_ = tracked_pattern(
            il, ggml_get_rows(ctx_.get(), row_store_.all(RowStore::Kind::query, il), inputs_.track_cells));
        ggml_build_forward_expand(graph_, tracked_);
    }
}

// The mean over keys and tracked positions of the cosine, over heads, between the attention before and now.
void Graph::track_now(int32_t il, ggml_tensor * q) {
    if (!key_.reset || il == hp_.n_layer - 1) {
        return;
    }
    ggml_context * ctx     = ctx_.get();
    ggml_tensor *  queries = ggml_reshape_2d(ctx, ggml_cont(ctx, q), q->ne[0] * q->ne[1], q->ne[2]);
    ggml_build_forward_expand(graph_,
                              ggml_set_rows(ctx, row_store_.all(RowStore::Kind::query, il), queries, inputs_.cells));
    if (!is_compared(il)) {
        return;
    }
    ggml_tensor * now     = tracked_pattern(il, ggml_get_rows(ctx, queries, inputs_.track_rows));
    const auto    product = [&](ggml_tensor * a, ggml_tensor * b) { return mean_over(2, ggml_mul(ctx, a, b)); };
    ggml_tensor * same    = cosine(product(now, tracked_), product(now, now), product(tracked_, tracked_)); // [keys, n]
    drift_                = scale(ggml_sum(ctx, same), 1.0f / static_cast<float>(ggml_nelements(same)));
    ggml_set_output(drift_);
    ggml_build_forward_expand(graph_, drift_);
}

} // namespace buoy
