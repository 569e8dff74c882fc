// Qwen3: a norm over each head of Q and K before RoPE instead of biases; the head dimension is its own number.

#include "graph/blocks.h"
#include "model/arch.h"
#include "model/loader.h"

namespace buoy {

namespace {

void load_layer(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer) {
    load_dense_layer(loader, hp, il, layer);
    layer.q_norm = loader.required("blk.%d.attn_q_norm.weight", {hp.head_dim}, WeightUse::multiply, il);
    layer.k_norm = loader.required("blk.%d.attn_k_norm.weight", {hp.head_dim}, WeightUse::multiply, il);
}

} // namespace

const Arch arch_qwen3 = {
    "qwen3", {RopeKind::neox, AttentionKind::causal, true}, load_layer, attention_keys, attention_queries, swiglu_ffn};

} // namespace buoy
