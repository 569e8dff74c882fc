// Qwen2 and Qwen2.5: Llama's block with a bias on Q, K and V, and RoPE over the two halves of a head.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_qwen2 = {"qwen2",           {RopeKind::neox, AttentionKind::causal, true},
                         load_dense_layer,  attention_keys,
                         attention_queries, swiglu_ffn};

} // namespace buoy
