#include "../arch.h"

namespace buoy {

namespace {

void check_qwen2(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_sliding_window", false);
    expect_setting(config, "use_mrope", false);
}

} // namespace

// Qwen2, Qwen2.5: biases on q, k and v.
ArchMapping qwen2_mapping() {
    ArchMapping mapping;
    mapping.arch      = "qwen2";
    mapping.hf_names  = {"Qwen2ForCausalLM", "Qwen2Model"};
    mapping.embedding = "model.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.check     = check_qwen2;
    mapping.tensors   = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::required));
    return mapping;
}

std::vector<ArchMapping> qwen2_mappings() { return {qwen2_mapping()}; }

} // namespace buoy
