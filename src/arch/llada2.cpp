// LLaDA2.0 and 2.1: Ling 2.0's block made block-causal. Experts are scored by sigmoids and chosen with a bias, within the best
// groups; part of each head is rotated; the first layers are ordinary.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_llada2 = {
    "llada2",          {RopeKind::neox, AttentionKind::block_causal, false, 32, 0, false, true, true, true},
    load_expert_layer, attention_keys,
    attention_queries, expert_ffn};

} // namespace buoy
