// LLaDA-8B, LLaDA-1.5 (arXiv 2502.09992): Llama's block, attention sees both ways, row i predicts token i.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_llada = {"llada",           {RopeKind::norm, AttentionKind::full, false},
                         load_dense_layer,  attention_keys,
                         attention_queries, swiglu_ffn};

} // namespace buoy
