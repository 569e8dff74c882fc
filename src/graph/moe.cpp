// A mixture of experts: a router scores them for every token, the best are run, by our own kernels or ggml's indexed matmul, and their
// outputs are added up by weight. X experts, U used per token, G groups.

#include "graph/graph.h"
#include "kernel/experts.h"

#include <cmath>

namespace buoy {

// scores [X, n] -> i32 [U, n]
ggml_tensor * Graph::choose_experts(ggml_tensor * scores) {
    ggml_context *       ctx = ctx_.get();
    const ExpertParams & p   = hp_.experts;
    const int64_t        n   = scores->ne[1];
    if (p.n_group > 1) {
        // a group is as good as the sum of its two best; experts of the other groups are out (DeepSeek-V3, arXiv 2412.19437)
        const int64_t each   = p.n_expert / p.n_group;
        ggml_tensor * groups = ggml_reshape_3d(ctx, scores, each, p.n_group, n); // [X/G, G, n]
        ggml_tensor * best   = ggml_argsort_top_k(ctx, groups, 2);               // i32 [2, G, n]
        ggml_tensor * values = ggml_get_rows(ctx, ggml_reshape_4d(ctx, groups, 1, each, p.n_group, n), best);
        values               = ggml_sum_rows(ctx, ggml_reshape_3d(ctx, values, 2, p.n_group, n)); // [1, G, n]
        ggml_tensor * chosen = ggml_argsort_top_k(ctx, ggml_reshape_2d(ctx, values, p.n_group, n), p.n_group_used);
        ggml_tensor * kept   = ggml_get_rows(ctx, groups, chosen); // [X/G, groups used, n]
        scores               = ggml_set_rows(ctx, ggml_fill(ctx, groups, -INFINITY), kept, chosen);
        scores               = ggml_reshape_2d(ctx, scores, p.n_expert, n);
    }
    return ggml_argsort_top_k(ctx, scores, p.n_used);
}

ggml_tensor * Graph::by_expert(ggml_tensor * matrices, ggml_tensor * x, ggml_tensor * chosen) {
    ggml_tensor * y = ggml_mul_mat_id(ctx_.get(), matrices, x, chosen);
    watch_product(matrices, x, chosen, y);
    return y;
}

// rows [E, 1, n]
ggml_tensor * Graph::gated_experts(const ExpertWeights & w, ggml_tensor * rows, ggml_tensor * chosen) {
    ggml_context * ctx  = ctx_.get();
    ggml_tensor *  gate = by_expert(w.gates(), rows, chosen);
    ggml_tensor *  up   = nullptr;
    if (w.gate_up != nullptr) {
        const auto half = [&](ggml_tensor * both, size_t i) { // [F, U, n]
            return ggml_view_3d(ctx, both, both->ne[0] / 2, both->ne[1], both->ne[2], both->nb[1], both->nb[2],
                                both->nb[1] / 2 * i);
        };
        up   = half(gate, 1);
        gate = ggml_cont(ctx, half(gate, 0));
    } else {
        up = by_expert(w.up, rows, chosen);
    }
    if (!hp_.experts.gelu) {
        return ggml_swiglu_split(ctx, gate, up);
    }
    return multiply(gelu(gate), up);
}

ggml_tensor * Graph::experts(const ExpertWeights & w, ggml_tensor * h, ggml_tensor * router) {
    ggml_context *       ctx = ctx_.get();
    const ExpertParams & p   = hp_.experts;
    const int64_t        n   = h->ne[1];

    router               = router != nullptr ? router : h;
    ggml_tensor * logits = ggml_mul_mat(ctx, w.router, router); // [X, n]
    watch_product(w.router, router, nullptr, logits);
    ggml_prec_set_acc(logits, GGML_PREC_F32);
    ggml_tensor * scores  = p.sigmoid ? ggml_sigmoid(ctx, logits) : ggml_soft_max(ctx, logits);
    ggml_tensor * biased  = w.select_bias != nullptr ? ggml_add(ctx, scores, w.select_bias) : scores;
    ggml_tensor * chosen  = choose_experts(biased);                                                     // i32 [U, n]
    ggml_tensor * weights = ggml_get_rows(ctx, ggml_reshape_3d(ctx, scores, 1, p.n_expert, n), chosen); // [1, U, n]
    if (p.norm) {
        weights           = ggml_reshape_2d(ctx, weights, p.n_used, n);
        ggml_tensor * sum = ggml_clamp(ctx, ggml_sum_rows(ctx, weights), 1e-20f, INFINITY); // [1, n]
        weights           = ggml_reshape_3d(ctx, ggml_div(ctx, weights, sum), 1, p.n_used, n);
    }
    if (p.scale != 1.0f) {
        weights = ggml_scale(ctx, weights, p.scale);
    }
    if (w.out_scale != nullptr) {
        ggml_tensor * ids    = ggml_cont_1d(ctx, chosen, p.n_used * n);
        ggml_tensor * scales = ggml_get_rows(ctx, ggml_reshape_2d(ctx, w.out_scale, 1, p.n_expert), ids); // [1, U·n]
        weights              = ggml_mul(ctx, weights, ggml_reshape_3d(ctx, scales, 1, p.n_used, n));
    }

    const int64_t n_each = (n * p.n_used + p.n_expert - 1) / p.n_expert; // rows of an expert, on average
    if (is_packed(w.gates(), n_each) && (w.up == nullptr || is_packed(w.up, n_each)) && is_packed(w.down, n_each) &&
        !key_.products) {
        const auto half = [&](size_t i) { // of the gates and what they let through, behind each other
            ggml_tensor * both = w.gate_up;
            return ggml_view_3d(ctx, both, both->ne[0], both->ne[1] / 2, both->ne[2], both->nb[1], both->nb[2],
                                both->nb[1] * static_cast<size_t>(both->ne[1] / 2) * i);
        };
        ggml_tensor * gate  = w.gate_up != nullptr ? half(0) : w.gate;
        ggml_tensor * up    = w.gate_up != nullptr ? half(1) : w.up;
        ggml_tensor * route = route_rows(ctx, chosen, p.n_expert);
        ggml_tensor * f =
            mul_routed_gated(ctx, gate, up, pack_routed(ctx, h, route), route, p.gelu ? Gating::gelu : Gating::silu);
        return sum_routed(ctx, mul_routed(ctx, w.down, pack_places(ctx, f, route), route), weights, route);
    }

    ggml_tensor * f = gated_experts(w, ggml_reshape_3d(ctx, h, h->ne[0], 1, n), chosen);
    ggml_tensor * y = ggml_mul(ctx, by_expert(w.down, f, chosen), weights); // [E, U, n]

    const auto part = [&](int64_t i) {
        return ggml_view_2d(ctx, y, y->ne[0], n, y->nb[2], y->nb[1] * static_cast<size_t>(i));
    };
    ggml_tensor * sum = part(0);
    for (int64_t i = 1; i < p.n_used; i++) {
        sum = ggml_add(ctx, sum, part(i));
    }
    return p.n_used > 1 ? sum : ggml_cont(ctx, sum); // [E, n]
}

} // namespace buoy
