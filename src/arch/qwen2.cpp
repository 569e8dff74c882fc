// Qwen2 and Qwen2.5: Llama's block with a bias on Q, K and V, and RoPE over the two halves of a head. Dream-7B, Dream-Coder and
// DiffuCoder (arXiv 2508.15487) made it bidirectional, Fast-dLLM v2 (arXiv 2509.26328) block-causal; row i still predicts token i + 1.

#include "arch/blocks.h"

namespace buoy {

namespace {

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    source.attention(il, hp, w, {.bias = Presence::usual});
    source.swiglu(il, hp, w);
}

ggml_tensor * block(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    g.keys_values(il, x, [&](ggml_tensor * all) {
        ggml_tensor * h = g.rms_norm(all, w.attn_norm);  // [E, n]
        ggml_tensor * k = g.heads(il, g.linear(w.k, h)); // [D, Hkv, n]
        return KeysValues{g.rope(il, k), g.heads(il, g.linear(w.v, h))};
    });
    return g.rows_needed(il, x, [&](ggml_tensor * rows) {
        ggml_tensor * h = g.rms_norm(rows, w.attn_norm);                              // [E, n]
        ggml_tensor * q = g.heads(il, g.linear(w.q, h));                              // [D, H, n]
        ggml_tensor * a = g.add(rows, g.linear(w.o, g.attention(il, g.rope(il, q)))); // [E, n]
        return g.add(a, swiglu_ffn(g, w, a));
    });
}

} // namespace

std::vector<Arch> qwen2_archs() {
    const Arch base = {.model = {.layer = layer}, .graph = {.block = block}};
    return {
        base.named("qwen2", {.rope = RopeKind::neox, .attention = AttentionKind::causal, .shift = true}),
        base.named("dream", {.rope = RopeKind::neox, .attention = AttentionKind::full, .shift = true}),
        base.named("fast-dllm-v2", {.rope             = RopeKind::neox,
                                    .attention        = AttentionKind::block_causal,
                                    .shift            = true,
                                    .block_length     = 32,
                                    .sub_block_length = 8}),
    };
}

} // namespace buoy
