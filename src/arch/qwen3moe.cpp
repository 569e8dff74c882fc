// Qwen3-30B-A3B and larger: Qwen3's attention, experts chosen by a softmax. SDAR-30B-A3B made it block-causal, RND1 (Radical
// Numerics) bidirectional with rows that still predict token i + 1. LLaDA-MoE (arXiv 2509.24389) has the same block; the weights of
// its experts stay as the softmax gives them.

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

std::vector<Arch> qwen3moe_archs() {
    const Arch base = {.model = {.layer = layer}, .graph = {.block = block}};
    return {
        base.named("qwen3moe",
                   {.rope = RopeKind::neox, .attention = AttentionKind::causal, .shift = true, .experts = true}),
        base.named("sdar_moe", {.rope         = RopeKind::neox,
                                .attention    = AttentionKind::block_causal,
                                .shift        = false,
                                .block_length = 4,
                                .experts      = true}),
        base.named("rnd1", {.rope       = RopeKind::neox,
                            .attention  = AttentionKind::full,
                            .shift      = true,
                            .even_steps = true,
                            .experts    = true}),
        base.named("llada-moe", {.rope        = RopeKind::neox,
                                 .attention   = AttentionKind::full,
                                 .shift       = false,
                                 .experts     = true,
                                 .expert_norm = false}),
    };
}

} // namespace buoy
