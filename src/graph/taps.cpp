// Activations that leave the graph while it runs, and their reductions, for each observer its own. Only additions, scaling, matmuls and
// gathered rows: every backend of ggml has them.

#include "graph/graph.h"
#include "kernel/attention.h"

namespace buoy {

void Graph::each_observer(size_t sequence, const Tapped & call) {
    const std::vector<ObserverKey> & observers = key_.sequences[sequence].observers;
    for (size_t i = 0; i < observers.size(); i++) {
        call(i, observers[i]);
    }
}

// A tensor that only the host reads would keep its memory to the end of the pass, so something reads it once it was seen.
void Graph::expand_last(ggml_tensor * x) {
    ggml_build_forward_expand(graph_, x);
    ggml_build_forward_expand(graph_, ggml_cont(ctx_.get(), ggml_view_1d(ctx_.get(), x, 1, 0)));
}

void Graph::tap(size_t sequence, size_t observer, const TapPoint & point, ggml_tensor * x, ggml_tensor * ready,
                float scale) {
    expand_last(ready);
    taps_.push_back({sequence, observer, point, x, ready, scale});
}

void Graph::tap_copy(Tap kind, int32_t il, size_t sequence, ggml_tensor * x) {
    if (!key_.sequences[sequence].has_tap(kind, il)) {
        return;
    }
    x = x->type == GGML_TYPE_F32 ? ggml_cont(ctx_.get(), x) : ggml_cast(ctx_.get(), x, GGML_TYPE_F32);
    each_observer(sequence, [&](size_t observer, const ObserverKey & key) {
        if (key.has_tap({kind, il})) {
            tap(sequence, observer, {kind, il}, x, x);
        }
    });
}

void Graph::tap_scores(int32_t il, size_t sequence, ggml_tensor * scores, ggml_tensor * ready, float scale) {
    each_observer(sequence, [&](size_t observer, const ObserverKey & key) {
        if (key.has_tap({Tap::attn_scores, il})) {
            if (ready == scores) {
                tap(sequence, observer, {Tap::attn_scores, il}, scores, ready, scale);
            } else { // the node is there already, for the edits
                taps_.push_back({sequence, observer, {Tap::attn_scores, il}, scores, ready, scale});
            }
        }
    });
}

void Graph::tap_residual(int32_t il, ggml_tensor * x) {
    for (size_t s = 0; s < key_.sequences.size(); s++) {
        each_observer(s, [&](size_t observer, const ObserverKey & key) {
            if (key.has_tap({Tap::resid_post, il})) {
                ggml_tensor * own = columns(x, 1, span(s, false));
                ggml_build_forward_expand(graph_, own); // a view has an address only as a part of the graph
                tap(s, observer, {Tap::resid_post, il}, own, x);
            }
        });
    }
}

void Graph::tap_pattern(int32_t il, size_t sequence, ggml_tensor * pattern) {
    each_observer(sequence, [&](size_t observer, const ObserverKey & key) {
        const auto asked = [&](TapReduce reduce) { return key.has_tap({Tap::pattern, il, reduce}); };
        const auto show  = [&](TapReduce reduce, ggml_tensor * x) {
            tap(sequence, observer, {Tap::pattern, il, reduce}, x, x);
        };
        const bool any = asked(TapReduce::none) || asked(TapReduce::received) || asked(TapReduce::heads) ||
                         asked(TapReduce::regions);
        ggml_tensor * chosen = any ? selected(il, sequence, observer, pattern) : nullptr; // [K, rows, heads]
        if (asked(TapReduce::none)) {
            show(TapReduce::none, chosen);
        }
        if (asked(TapReduce::received)) {
            show(TapReduce::received, mean_over(1, chosen)); // [K, 1, heads]
        }
        if (asked(TapReduce::heads) || asked(TapReduce::regions)) {
            ggml_tensor * mean = mean_over(2, chosen); // [K, rows]
            if (asked(TapReduce::regions)) {
                show(TapReduce::regions, region_sums(sequence, observer, mean)); // [regions, regions]
            }
            if (asked(TapReduce::heads)) {
                show(TapReduce::heads, mean);
            }
        }
    });
}

// The same by our own kernels, which never hold a whole pattern unless one is asked for.
void Graph::tap_weights(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k) {
    ggml_tensor * hidden = mask(il, sequence);
    each_observer(sequence, [&](size_t observer, const ObserverKey & key) {
        const auto    asked   = [&](TapReduce reduce) { return key.has_tap({Tap::pattern, il, reduce}); };
        ggml_tensor * chosen  = tap_rows(il, sequence, observer);
        const auto    weights = [&](PatternShape shape) {
            return attention_weights(ctx_.get(), q, k, hidden, hp_.layer(il).scale, chosen, shape);
        };
        const auto show = [&](TapReduce reduce, ggml_tensor * x) {
            tap(sequence, observer, {Tap::pattern, il, reduce}, x, x);
        };
        if (asked(TapReduce::none)) {
            show(TapReduce::none, weights(PatternShape::whole));
        }
        if (asked(TapReduce::received)) {
            show(TapReduce::received, weights(PatternShape::received));
        }
        if (asked(TapReduce::heads) || asked(TapReduce::regions)) {
            ggml_tensor * mean = weights(PatternShape::heads);
            if (asked(TapReduce::regions)) {
                show(TapReduce::regions, region_sums(sequence, observer, mean));
            }
            if (asked(TapReduce::heads)) {
                show(TapReduce::heads, mean);
            }
        }
    });
}

ggml_tensor * Graph::tap_rows(int32_t il, size_t sequence, size_t observer) {
    const SequenceKey & seq = key_.sequences[sequence];
    const ObserverKey & key = seq.observers[observer];
    if (key.n_heads == 0 && key.n_rows == 0) {
        return nullptr;
    }
    const int64_t  n_heads = key.n_heads > 0 ? key.n_heads : hp_.layer(il).n_head;
    const int64_t  n_rows  = key.n_rows > 0 ? key.n_rows : seq.n_tokens;
    ggml_tensor *& in      = inputs_.sequences[sequence].observers[observer].tap_rows[n_heads];
    if (in == nullptr) {
        in = input(GGML_TYPE_I32, n_rows, n_heads, "tap_rows");
    }
    return in;
}

// [K, Tq, H] -> [K, rows, heads]
ggml_tensor * Graph::selected(int32_t il, size_t sequence, size_t observer, ggml_tensor * pattern) {
    ggml_tensor * chosen = tap_rows(il, sequence, observer);
    if (chosen == nullptr) {
        return pattern;
    }
    const int64_t K    = pattern->ne[0];
    ggml_tensor * rows = ggml_reshape_2d(ctx_.get(), pattern, K, ggml_nrows(pattern));
    rows               = ggml_get_rows(ctx_.get(), rows, ggml_reshape_1d(ctx_.get(), chosen, ggml_nelements(chosen)));
    return ggml_reshape_3d(ctx_.get(), rows, K, chosen->ne[0], chosen->ne[1]);
}

// Adds halves until one is left: a sum over any dimension but the first in whole rows, and more exact than one after the other.
ggml_tensor * Graph::mean_over(int dim, ggml_tensor * x) {
    ggml_context * ctx  = ctx_.get();
    const int64_t  n    = x->ne[dim];
    ggml_tensor *  odd  = nullptr; // what halves left over
    const auto     part = [&](int64_t first, int64_t count) {
        int64_t ne[3] = {x->ne[0], x->ne[1], x->ne[2]};
        ne[dim]       = count;
        return ggml_view_3d(ctx, x, ne[0], ne[1], ne[2], x->nb[1], x->nb[2], x->nb[dim] * static_cast<size_t>(first));
    };
    for (int64_t left = n; left > 1; left /= 2) {
        if (left % 2 == 1) {
            ggml_tensor * last = part(left - 1, 1);
            odd                = odd == nullptr ? last : ggml_add(ctx, odd, last);
        }
        x = ggml_add(ctx, part(0, left / 2), part(left / 2, left / 2));
    }
    x = odd == nullptr ? x : ggml_add(ctx, x, odd);
    return ggml_scale(ctx, x, 1.0f / static_cast<float>(n));
}

// [K, rows] -> [key regions, query regions]
ggml_tensor * Graph::region_sums(size_t sequence, size_t observer, ggml_tensor * mean) {
    ggml_context *   ctx       = ctx_.get();
    const int64_t    n_regions = key_.sequences[sequence].observers[observer].n_regions;
    ObserverInputs & in        = inputs_.sequences[sequence].observers[observer];
    if (in.region_keys == nullptr) {
        in.region_keys = input(GGML_TYPE_F32, mean->ne[0], n_regions, "region_keys");
        in.region_rows = input(GGML_TYPE_F32, mean->ne[1], n_regions, "region_rows");
    }
    ggml_tensor * by_key = ggml_mul_mat(ctx, in.region_keys, mean);
    ggml_prec_set_acc(by_key, GGML_PREC_F32);
    by_key            = ggml_cont(ctx, ggml_transpose(ctx, by_key)); // [rows, key regions]
    ggml_tensor * sum = ggml_mul_mat(ctx, in.region_rows, by_key);   // [query regions, key regions]
    ggml_prec_set_acc(sum, GGML_PREC_F32);
    return ggml_cont(ctx, ggml_transpose(ctx, sum));
}

} // namespace buoy
