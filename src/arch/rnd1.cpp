// RND1 (Radical Numerics): Qwen3-MoE made bidirectional; row i still predicts token i + 1.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_rnd1 = {"rnd1",
                        {RopeKind::neox, AttentionKind::full, true, 0, 0, true, true},
                        load_expert_layer,
                        attention_keys,
                        attention_queries,
                        expert_ffn};

} // namespace buoy
