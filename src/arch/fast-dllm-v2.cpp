// Fast-dLLM v2 (arXiv 2509.26328): Qwen2.5's block made block-causal; row i still predicts token i + 1.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_fast_dllm_v2 = {"fast-dllm-v2",    {RopeKind::neox, AttentionKind::block_causal, true, 32, 8},
                                load_dense_layer,  attention_keys,
                                attention_queries, swiglu_ffn};

} // namespace buoy
