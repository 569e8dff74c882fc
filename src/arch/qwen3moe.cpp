// Qwen3-30B-A3B and larger: Qwen3's attention, experts chosen by a softmax.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_qwen3moe = {"qwen3moe",        {RopeKind::neox, AttentionKind::causal, true, 0, 0, false, true},
                            load_expert_layer, attention_keys,
                            attention_queries, expert_ffn};

} // namespace buoy
