#include "../arch.h"

namespace buoy {

namespace {

void check_qwen3moe(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_sliding_window", false);
}

ArchMapping qwen3moe_body() {
    ArchMapping mapping;
    mapping.embedding = "model.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.check     = check_qwen3moe;
    mapping.tensors   = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::optional));
    append(mapping.tensors, qwen3_attention_rules());
    append(mapping.tensors, expert_rules());
    return mapping;
}

} // namespace

// Qwen3-30B-A3B and larger.
ArchMapping qwen3moe_mapping() {
    ArchMapping mapping = qwen3moe_body();
    mapping.arch        = "qwen3moe";
    mapping.hf_names    = {"Qwen3MoeForCausalLM", "Qwen3MoeModel"};
    return mapping;
}

// RND1: Qwen3-MoE that attends both ways, its rows shifted by one.
ArchMapping rnd1_mapping() {
    ArchMapping mapping = qwen3moe_body();
    mapping.arch        = "rnd1";
    mapping.hf_names    = {"RND1LM", "RND1"};
    mapping.diffusion   = true;
    mapping.shift       = true;
    mapping.moe.norm    = true;
    return mapping;
}

} // namespace buoy
