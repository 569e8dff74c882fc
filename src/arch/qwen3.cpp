// Qwen3: a norm over each head of Q and K before RoPE instead of biases; the head dimension is its own number. SDAR and TraDo
// (arXiv 2510.06303) made it block-causal, row i predicts token i.

#include "arch/blocks.h"

namespace buoy {

namespace {

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    source.attention(il, hp, w);
    source.head_norms(il, hp, w);
    source.swiglu(il, hp, w);
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
        return g.add(a, swiglu_ffn(g, w, a));
    });
}

} // namespace

std::vector<Arch> qwen3_archs() {
    const Arch base = {.model = {.layer = layer}, .graph = {.block = block}};
    return {
        base.named("qwen3", {.rope = RopeKind::neox, .attention = AttentionKind::causal, .shift = true}),
        base.named(
            "sdar",
            {.rope = RopeKind::neox, .attention = AttentionKind::block_causal, .shift = false, .block_length = 4}),
    };
}

} // namespace buoy
