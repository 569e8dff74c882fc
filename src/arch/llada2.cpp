// LLaDA2.0 and 2.1: Ling 2.0's block made block-causal. Experts are scored by sigmoids and chosen with a bias, within the best
// groups; part of each head is rotated; the first layers are ordinary.

#include "arch/blocks.h"

namespace buoy {

namespace {

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    source.attention(il, hp, w, {.fused = Presence::usual});
    source.head_norms(il, hp, w);
    source.experts(il, hp, w, Presence::usual);
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

std::vector<Arch> llada2_archs() {
    const Arch base = {.model = {.layer = layer}, .graph = {.block = block}};
    return {
        base.named("llada2", {.rope                = RopeKind::neox,
                              .attention           = AttentionKind::block_causal,
                              .shift               = false,
                              .block_length        = 32,
                              .experts             = true,
                              .expert_sigmoid      = true,
                              .expert_norm         = true,
                              .usual_dense_layers  = 1,
                              .usual_shared        = 1,
                              .usual_expert_scale  = 2.5f,
                              .usual_rotated_share = 0.5f}),
    };
}

} // namespace buoy
