// Qwen3: a norm over each head of Q and K before RoPE instead of biases; the head dimension is its own number.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_qwen3 = {"qwen3",           {RopeKind::neox, AttentionKind::causal, true},
                         load_normed_layer, attention_keys,
                         attention_queries, swiglu_ffn};

} // namespace buoy
