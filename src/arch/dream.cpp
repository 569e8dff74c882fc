// Dream-7B, Dream-Coder, DiffuCoder (arXiv 2508.15487): Qwen2.5's block made bidirectional; row i still predicts token i + 1.

#include "arch/arch.h"
#include "graph/blocks.h"
#include "model/loader.h"

namespace buoy {

const Arch arch_dream = {"dream",           {RopeKind::neox, AttentionKind::full, true},
                         load_dense_layer,  attention_keys,
                         attention_queries, swiglu_ffn};

} // namespace buoy
