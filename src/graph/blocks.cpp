#include "graph/blocks.h"

#include "graph/graph.h"

namespace buoy {

KeysValues attention_keys(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    ggml_tensor * h = g.rms_norm(x, w.attn_norm); // [E, n]
    ggml_tensor * k = g.heads(g.linear(w.k, h));  // [D, Hkv, n]
    ggml_tensor * v = g.heads(g.linear(w.v, h));  // [D, Hkv, n]
    if (w.k_norm != nullptr) {
        k = g.rms_norm(k, w.k_norm);
    }
    return {g.rope(il, k), v, h};
}

ggml_tensor * attention_queries(Graph & g, int32_t il, ggml_tensor * x, const KeysValues & kv) {
    const LayerWeights & w = g.layer(il);

    ggml_tensor * h = kv.h != nullptr ? kv.h : g.rms_norm(x, w.attn_norm); // [E, n]
    ggml_tensor * q = g.heads(g.linear(w.q, h));                           // [D, H, n]
    if (w.q_norm != nullptr) {
        q = g.rms_norm(q, w.q_norm);
    }
    return g.add(x, g.linear(w.o, g.attention(il, g.rope(il, q), kv)));
}

ggml_tensor * swiglu_ffn(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    ggml_tensor * h = g.rms_norm(x, w.ffn_norm); // [E, n]
    ggml_tensor * f = g.swiglu(w.gate, w.up, h); // [F, n]
    return g.add(x, g.linear(w.down, f));
}

ggml_tensor * expert_ffn(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);
    if (w.experts.router == nullptr) {
        return swiglu_ffn(g, il, x);
    }
    ggml_tensor * h = g.rms_norm(x, w.ffn_norm); // [E, n]
    ggml_tensor * y = g.experts(w.experts, h);   // [E, n]
    if (w.gate.w != nullptr) {
        ggml_tensor * shared = g.swiglu(w.gate, w.up, h);
        y                    = g.add(y, g.linear(w.down, shared));
    }
    return g.add(x, y);
}

} // namespace buoy
