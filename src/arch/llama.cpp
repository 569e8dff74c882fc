// Llama 1 to 3, Mistral and what else has their block: the autoregressive side of the comparison.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

namespace {

void load_layer(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer) {
    load_dense_layer(loader, hp, il, layer);
    layer.rope_factors = loader.optional("rope_freqs.weight", {hp.rope.n_dims / 2}, WeightUse::rope, il);
}

} // namespace

const Arch arch_llama = {
    "llama", {RopeKind::norm, AttentionKind::causal, true}, load_layer, attention_keys, attention_queries, swiglu_ffn};

} // namespace buoy
