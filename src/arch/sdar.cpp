// SDAR, TraDo (arXiv 2510.06303): Qwen3's block made block-causal, row i predicts token i.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_sdar = {"sdar",
                        {RopeKind::neox, AttentionKind::block_causal, false, 4},
                        load_normed_layer,
                        attention_keys,
                        attention_queries,
                        swiglu_ffn};

} // namespace buoy
