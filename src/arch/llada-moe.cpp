// LLaDA-MoE (arXiv 2509.24389): norms of each head of Q and K, experts chosen by a softmax whose weights stay as they are.

#include "arch/blocks.h"

namespace buoy {

namespace {

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    source.attention(il, hp, w);
    source.head_norms(il, hp, w);
    source.experts(il, hp, w);
}

ggml_tensor * block(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    g.keys_values(il, x, [&](ggml_tensor * all) {
        ggml_tensor * h = g.rms_norm(all, w.attn_norm);                        // [E, n]
        ggml_tensor * k = g.rms_norm(g.heads(il, g.linear(w.k, h)), w.k_norm); // [D, Hkv, n]
        return KeysValues{g.rope(il, k), g.heads(il, g.linear(w.v, h))};
    });
    return g.rows_needed(il, x, [&](ggml_tensor * rows) {
        ggml_tensor * h = g.rms_norm(rows, w.attn_norm);                              // [E, n]
        ggml_tensor * q = g.rms_norm(g.heads(il, g.linear(w.q, h)), w.q_norm);        // [D, H, n]
        ggml_tensor * a = g.add(rows, g.linear(w.o, g.attention(il, g.rope(il, q)))); // [E, n]
        return g.add(a, expert_ffn(g, w, a));
    });
}

} // namespace

extern const Arch arch_llada_moe;

const Arch arch_llada_moe = {
    .model = {.name   = "llada-moe",
              .traits = {.rope        = RopeKind::neox,
                         .attention   = AttentionKind::full,
                         .shift       = false,
                         .experts     = true,
                         .expert_norm = false},
              .layer  = layer},
    .graph = {.block = block},
};

} // namespace buoy
