// SDAR-30B-A3B: SDAR on Qwen3-MoE's block.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_sdar_moe = {"sdar_moe",        {RopeKind::neox, AttentionKind::block_causal, false, 4, 0, false, true},
                            load_expert_layer, attention_keys,
                            attention_queries, expert_ffn};

} // namespace buoy
