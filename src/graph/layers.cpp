// What blocks are made of, but for attention.

#include "graph/graph.h"
#include "kernel/matmul.h"

namespace buoy {

ggml_tensor * Graph::rms_norm(ggml_tensor * x, const Norm & norm) {
    if (norm.w == nullptr) {
        return ggml_rms_norm(ctx_.get(), x, hp_.norm_eps);
    }
    ggml_tensor *& made = normed_[{x, norm.w}]; // keys and queries are made of the same
    if (made == nullptr) {
        made = ggml_mul(ctx_.get(), ggml_rms_norm(ctx_.get(), x, hp_.norm_eps), norm.w);
    }
    return made;
}

ggml_tensor * Graph::layer_norm(ggml_tensor * x, const Norm & norm) {
    ggml_tensor * y = ggml_norm(ctx_.get(), x, hp_.norm_eps);
    y               = norm.w != nullptr ? ggml_mul(ctx_.get(), y, norm.w) : y;
    return norm.bias != nullptr ? ggml_add(ctx_.get(), y, norm.bias) : y;
}

bool Graph::is_packed(const ggml_tensor * w, int64_t n_rows) const {
    return ggml_backend_buffer_is_host(w->buffer) &&
           model_.products().is_ours({w->type, w->ne[0], w->ne[2] > 1}, n_rows);
}

ggml_tensor * Graph::packed(ggml_tensor * x) {
    if (packed_.rows != x) {
        packed_ = {x, pack_rows(ctx_.get(), x)};
    }
    return packed_.packed;
}

void Graph::watch_product(const ggml_tensor * weight, const ggml_tensor * x, const ggml_tensor * ids,
                          const ggml_tensor * ready) {
    if (key_.products && !showing_) {
        products_.push_back({weight, x, ids, rows_.needed, ready});
    }
}

ggml_tensor * Graph::linear(const Linear & part, ggml_tensor * x) {
    const bool    by_kernel = is_packed(part.w, x->ne[1]);
    ggml_tensor * y =
        by_kernel ? mul_packed(ctx_.get(), part.w, packed(x), x->ne[1]) : ggml_mul_mat(ctx_.get(), part.w, x);
    watch_product(part.w, x, nullptr, by_kernel ? packed(x) : y);
    if (part.scale != nullptr) {
        y = ggml_mul(ctx_.get(), y, part.scale);
    }
    return part.bias != nullptr ? ggml_add(ctx_.get(), y, part.bias) : y;
}

ggml_tensor * Graph::add(ggml_tensor * a, ggml_tensor * b) { return ggml_add(ctx_.get(), a, b); }

ggml_tensor * Graph::multiply(ggml_tensor * a, ggml_tensor * b) { return ggml_mul(ctx_.get(), a, b); }

ggml_tensor * Graph::scale(ggml_tensor * x, float factor) { return ggml_scale(ctx_.get(), x, factor); }

ggml_tensor * Graph::softcap(ggml_tensor * x, float cap) {
    return scale(ggml_tanh(ctx_.get(), scale(x, 1.0f / cap)), cap);
}

ggml_tensor * Graph::gelu(ggml_tensor * x) {
    // x / 2 · (1 + tanh(√(2/π)(x + 0.044715 x³))) of single steps: ggml's own reads a table of half precision on a CPU
    constexpr float a = 0.79788456080286535588f, b = 0.044715f * a;
    ggml_context *  ctx   = ctx_.get();
    ggml_tensor *   cubed = ggml_mul(ctx, ggml_sqr(ctx, x), x);
    ggml_tensor *   gate  = ggml_tanh(ctx, ggml_add(ctx, scale(x, a), scale(cubed, b)));
    return scale(ggml_add(ctx, x, ggml_mul(ctx, x, gate)), 0.5f);
}

ggml_tensor * Graph::swiglu(const Linear & gate, const Linear & up, ggml_tensor * x) {
    return gated(gate, up, x, false);
}

ggml_tensor * Graph::geglu(const Linear & gate, const Linear & up, ggml_tensor * x) { return gated(gate, up, x, true); }

ggml_tensor * Graph::gated(const Linear & gate, const Linear & up, ggml_tensor * x, bool use_gelu) {
    const bool plain = gate.scale == nullptr && gate.bias == nullptr && up.scale == nullptr && up.bias == nullptr;
    if (plain && is_packed(gate.w, x->ne[1]) && is_packed(up.w, x->ne[1])) {
        watch_product(gate.w, x, nullptr, packed(x));
        watch_product(up.w, x, nullptr, packed(x));
        return mul_packed_gated(ctx_.get(), gate.w, up.w, packed(x), x->ne[1], use_gelu ? Gating::gelu : Gating::silu);
    }
    return use_gelu ? multiply(gelu(linear(gate, x)), linear(up, x))
                    : ggml_swiglu_split(ctx_.get(), linear(gate, x), linear(up, x));
}

ggml_tensor * Graph::heads(int32_t il, ggml_tensor * x) {
    const int64_t D = hp_.layer(il).head_dim;
    return ggml_reshape_3d(ctx_.get(), x, D, x->ne[0] / D, x->ne[1]);
}

ggml_tensor * Graph::scale_queries(ggml_tensor * q) {
    if (rows_.scales == nullptr) {
        return q;
    }
    return ggml_mul(ctx_.get(), q, ggml_reshape_3d(ctx_.get(), rows_.scales, 1, 1, rows_.scales->ne[1]));
}

ggml_tensor * Graph::rope(int32_t il, ggml_tensor * x) {
    const RopeParams & r = hp_.layer(il).rope;
    return ggml_rope_ext(ctx_.get(), x, rows_.positions, layer(il).rope_factors, r.n_dims,
                         r.kind == RopeKind::neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL, r.n_ctx_orig,
                         r.freq_base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow);
}

} // namespace buoy
