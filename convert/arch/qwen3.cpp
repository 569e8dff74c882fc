#include "../arch.h"

namespace buoy {

namespace {

void check_qwen3(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_sliding_window", false);
}

} // namespace

// Qwen3 dense: per-head norms of q and k before RoPE.
ArchMapping qwen3_mapping() {
    ArchMapping mapping;
    mapping.arch      = "qwen3";
    mapping.hf_names  = {"Qwen3ForCausalLM", "Qwen3Model"};
    mapping.embedding = "model.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.check     = check_qwen3;
    mapping.tensors   = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::optional));
    append(mapping.tensors, qwen3_attention_rules());
    return mapping;
}

std::vector<ArchMapping> qwen3_mappings() { return {qwen3_mapping()}; }

} // namespace buoy
