#include "graph/blocks.h"

#include "graph/graph.h"

namespace buoy {

ggml_tensor * self_attention(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    ggml_tensor * h = g.rms_norm(x, w.attn_norm);     // [E, T·S]
    ggml_tensor * k = g.heads(g.linear(w.k, h));      // [D, Hkv, T·S]
    ggml_tensor * v = g.heads(g.linear(w.v, h));      // [D, Hkv, T·S]
    if (w.k_norm != nullptr) {
        k = g.rms_norm(k, w.k_norm);
    }
    k = g.rope_k(il, k);
    if (g.n_query_rows(il) == 0) {
        g.store_only(il, k, v);
        return nullptr;
    }

    ggml_tensor * q = g.heads(g.linear(w.q, g.query_rows(il, h))); // [D, H, Tq·S]
    if (w.q_norm != nullptr) {
        q = g.rms_norm(q, w.q_norm);
    }
    q = g.rope_q(il, q);
    return g.add(g.query_rows(il, x), g.linear(w.o, g.attention(il, q, k, v))); // [E, Tq·S]
}

ggml_tensor * swiglu_ffn(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    ggml_tensor * h = g.rms_norm(x, w.ffn_norm);                               // [E, Tq·S]
    ggml_tensor * f = g.swiglu(g.linear(w.gate, h), g.linear(w.up, h)); // [F, Tq·S]
    return g.add(x, g.linear(w.down, f));
}

} // namespace buoy
