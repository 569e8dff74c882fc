// Llama's block. LLaDA-8B and LLaDA-1.5 (arXiv 2502.09992) and iLLaDA let its attention see both ways, Stable-DiffCoder makes it
// block-causal; row i predicts token i. Nemotron-Labs-Diffusion scales queries by position, and is autoregressive as well. Llama 1 to 3, Mistral and what else has it are the autoregressive side of the comparison.

#include "arch/blocks.h"

namespace buoy {

namespace {

void layer(WeightSource & source, const HParams & hp, int32_t il, LayerWeights & w) {
    source.attention(il, hp, w);
    source.swiglu(il, hp, w);
    w.rope_factors =
        source.get({"rope_freqs.weight", {hp.layer(il).rope.n_dims / 2}, WeightUse::rope, Presence::optional, il});
}

ggml_tensor * block(Graph & g, int32_t il, ggml_tensor * x) {
    const LayerWeights & w = g.layer(il);

    g.keys_values(il, x, [&](ggml_tensor * all) {
        ggml_tensor * h = g.rms_norm(all, w.attn_norm);  // [E, n]
        ggml_tensor * k = g.heads(il, g.linear(w.k, h)); // [D, Hkv, n]
        return KeysValues{g.rope(il, k), g.heads(il, g.linear(w.v, h))};
    });
    return g.rows_needed(il, x, [&](ggml_tensor * rows) {
        ggml_tensor * h = g.rms_norm(rows, w.attn_norm);                                   // [E, n]
        ggml_tensor * q = g.rope(il, g.heads(il, g.linear(w.q, h)));                       // [D, H, n]
        ggml_tensor * a = g.add(rows, g.linear(w.o, g.attention(il, g.scale_queries(q)))); // [E, n]
        return g.add(a, swiglu_ffn(g, w, a));
    });
}

} // namespace

std::vector<Arch> llada_archs() {
    const Arch base = {.model = {.layer = layer}, .graph = {.block = block}};
    return {
        base.named("llada", {.rope = RopeKind::norm, .attention = AttentionKind::full, .shift = false}),
        base.named("illada", {.rope = RopeKind::norm, .attention = AttentionKind::full, .shift = false}),
        base.named("stable-diffcoder", {.rope         = RopeKind::norm,
                                        .attention    = AttentionKind::block_causal,
                                        .shift        = false,
                                        .block_length = 4,
                                        .exact_blocks = true}),
        base.named("nemotron-labs-diffusion", {.rope             = RopeKind::neox,
                                               .attention        = AttentionKind::full,
                                               .shift            = false,
                                               .two_modes        = true,
                                               .usual_query_beta = 0.1f}),
        base.named("llama", {.rope = RopeKind::norm, .attention = AttentionKind::causal, .shift = true}),
    };
}

} // namespace buoy
