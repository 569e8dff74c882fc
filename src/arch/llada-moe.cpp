// LLaDA-MoE (arXiv 2509.24389): norms of each head of Q and K, experts chosen by a softmax whose weights stay as they are.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_llada_moe = {
    "llada-moe",       {RopeKind::neox, AttentionKind::full, false, 0, 0, false, true, false, false},
    load_expert_layer, attention_keys,
    attention_queries, expert_ffn};

} // namespace buoy
