// Activations that leave the graph while it runs, and their reductions. Only additions, scaling, matmuls and gathered rows: every
// backend of ggml has them.

#include "graph/graph.h"
#include "kernel/attention.h"
#include "model/model.h"

#include <algorithm>

namespace buoy {

bool GraphKey::has_tap(const TapPoint & point) const {
    return std::find(taps.begin(), taps.end(), point) != taps.end();
}

bool GraphKey::has_tap(Tap tap, int32_t layer) const {
    return std::any_of(taps.begin(), taps.end(),
                       [&](const TapPoint & point) { return point.tap == tap && point.layer == layer; });
}

// A tensor that only the host reads would keep its memory to the end of the pass, so something reads it once it was seen.
void Graph::expand_last(ggml_tensor * x) {
    ggml_build_forward_expand(graph_, x);
    ggml_build_forward_expand(graph_, ggml_cont(ctx_.get(), ggml_view_1d(ctx_.get(), x, 1, 0)));
}

void Graph::tap(const TapPoint & point, ggml_tensor * x) {
    if (key_.has_tap(point)) {
        expand_last(x);
        taps_.push_back({point, x, x});
    }
}

void Graph::tap_copy(Tap kind, int32_t il, ggml_tensor * x) {
    if (key_.has_tap(kind, il)) {
        tap({kind, il}, x->type == GGML_TYPE_F32 ? ggml_cont(ctx_.get(), x) : ggml_cast(ctx_.get(), x, GGML_TYPE_F32));
    }
}

void Graph::tap_pattern(int32_t il, ggml_tensor * pattern) {
    const auto asked = [&](TapReduce reduce) { return key_.has_tap({Tap::pattern, il, reduce}); };
    if (!key_.has_tap(Tap::pattern, il)) {
        return;
    }
    pattern = selected(pattern); // [K, rows, heads, S]
    tap({Tap::pattern, il}, pattern);
    if (asked(TapReduce::received)) {
        tap({Tap::pattern, il, TapReduce::received}, mean_over(1, pattern)); // [K, 1, heads, S]
    }
    if (asked(TapReduce::heads) || asked(TapReduce::regions)) {
        ggml_tensor * mean = mean_over(2, pattern); // [K, rows, 1, S]
        if (asked(TapReduce::regions)) {
            tap({Tap::pattern, il, TapReduce::regions}, region_sums(mean)); // [regions, regions, 1, S]
        }
        tap({Tap::pattern, il, TapReduce::heads}, mean);
    }
}

// The same by our own kernels, which never hold a whole pattern unless one is asked for.
void Graph::tap_weights(int32_t il, ggml_tensor * q, ggml_tensor * k) {
    ggml_context * ctx    = ctx_.get();
    const auto     asked  = [&](TapReduce reduce) { return key_.has_tap({Tap::pattern, il, reduce}); };
    ggml_tensor *  chosen = nullptr;
    if (key_.n_tap_rows > 0) {
        chosen = ggml_reshape_3d(ctx, tap_rows(q->ne[3]), key_.n_tap_rows, key_.n_tap_heads, q->ne[3]);
    }
    const auto weights = [&](PatternShape shape) {
        return attention_weights(ctx, q, k, rows_.mask, hp_.attn_scale(), chosen, shape);
    };
    if (asked(TapReduce::none)) {
        tap({Tap::pattern, il}, weights(PatternShape::whole));
    }
    if (asked(TapReduce::received)) {
        tap({Tap::pattern, il, TapReduce::received}, weights(PatternShape::received));
    }
    if (asked(TapReduce::heads) || asked(TapReduce::regions)) {
        ggml_tensor * mean = weights(PatternShape::heads);
        if (asked(TapReduce::regions)) {
            tap({Tap::pattern, il, TapReduce::regions}, region_sums(mean));
        }
        tap({Tap::pattern, il, TapReduce::heads}, mean);
    }
}

// The last layer of a pass drops the rows that nobody asked for; taps are about all of them. So its queries are computed for
// all rows once more, and what follows from them is left out of the graph.
void Graph::show_dropped_rows(int32_t il, ggml_tensor * x, const KeysValues & kv) {
    const bool tapped =
        std::any_of(key_.taps.begin(), key_.taps.end(), [il](const TapPoint & point) { return point.layer == il; });
    if (rows_restricted(il) && tapped) {
        enter({inputs_.positions, inputs_.mask, nullptr}, 0, x->ne[1], x->ne[1]);
        showing_ = true;
        model_.arch().queries(*this, il, x, kv);
        showing_ = false;
    }
}

ggml_tensor * Graph::tap_rows(int64_t n_streams) {
    if (inputs_.tap_rows == nullptr) {
        inputs_.tap_rows = input(GGML_TYPE_I32, key_.n_tap_rows * key_.n_tap_heads * n_streams, 1, "tap_rows");
    }
    return inputs_.tap_rows;
}

// [K, Tq, H, S] -> [K, rows, heads, S]
ggml_tensor * Graph::selected(ggml_tensor * pattern) {
    if (key_.n_tap_rows == 0) {
        return pattern;
    }
    const int64_t K = pattern->ne[0], S = pattern->ne[3];
    ggml_tensor * rows = ggml_reshape_2d(ctx_.get(), pattern, K, ggml_nrows(pattern));
    rows               = ggml_get_rows(ctx_.get(), rows, tap_rows(S));
    return ggml_reshape_4d(ctx_.get(), rows, K, key_.n_tap_rows, key_.n_tap_heads, S);
}

// Adds halves until one is left: a sum over any dimension but the first in whole rows, and more exact than one after the other.
ggml_tensor * Graph::mean_over(int dim, ggml_tensor * x) {
    ggml_context * ctx  = ctx_.get();
    const int64_t  n    = x->ne[dim];
    ggml_tensor *  odd  = nullptr; // what halves left over
    const auto     part = [&](int64_t first, int64_t count) {
        int64_t ne[4] = {x->ne[0], x->ne[1], x->ne[2], x->ne[3]};
        ne[dim]       = count;
        return ggml_view_4d(ctx, x, ne[0], ne[1], ne[2], ne[3], x->nb[1], x->nb[2], x->nb[3],
                                x->nb[dim] * static_cast<size_t>(first));
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

// [K, rows, 1, S] -> [key regions, query regions, 1, S]
ggml_tensor * Graph::region_sums(ggml_tensor * mean) {
    ggml_context * ctx = ctx_.get();
    if (inputs_.region_keys == nullptr) {
        inputs_.region_keys = input(GGML_TYPE_F32, mean->ne[0], key_.n_regions, "region_keys");
        inputs_.region_rows = input(GGML_TYPE_F32, mean->ne[1], key_.n_regions, "region_rows");
    }
    // streams in the third dimension: not every backend repeats a matrix over the fourth
    const int64_t S = mean->ne[3];
    ggml_tensor * by_key =
        ggml_mul_mat(ctx, inputs_.region_keys, ggml_reshape_3d(ctx, mean, mean->ne[0], mean->ne[1], S));
    ggml_prec_set_acc(by_key, GGML_PREC_F32);
    by_key            = ggml_cont(ctx, ggml_transpose(ctx, by_key));    // [rows, key regions, S]
    ggml_tensor * sum = ggml_mul_mat(ctx, inputs_.region_rows, by_key); // [query regions, key regions, S]
    ggml_prec_set_acc(sum, GGML_PREC_F32);
    return ggml_reshape_4d(ctx, ggml_cont(ctx, ggml_transpose(ctx, sum)), key_.n_regions, key_.n_regions, 1, S);
}

} // namespace buoy
