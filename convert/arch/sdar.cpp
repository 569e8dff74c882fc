#include "../arch.h"

namespace buoy {

namespace {

void check_sdar(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_sliding_window", false);
}

ArchMapping sdar_body() {
    ArchMapping mapping;
    mapping.embedding    = "model.embed_tokens.weight";
    mapping.head         = "lm_head.weight";
    mapping.diffusion    = true;
    mapping.block_key    = "block_size";
    mapping.block_length = 4;
    mapping.check        = check_sdar;
    mapping.tensors      = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::optional));
    append(mapping.tensors, qwen3_attention_rules());
    return mapping;
}

} // namespace

// SDAR, TraDo: Qwen3 made block-causal.
ArchMapping sdar_mapping() {
    ArchMapping mapping = sdar_body();
    mapping.arch        = "sdar";
    mapping.hf_names    = {"SDARForCausalLM"};
    return mapping;
}

// SDAR-30B-A3B: the same with Qwen3-MoE's experts.
ArchMapping sdar_moe_mapping() {
    ArchMapping mapping = sdar_body();
    mapping.arch        = "sdar_moe";
    mapping.hf_names    = {"SDARMoeForCausalLM", "SDARMoEForCausalLM"};
    mapping.moe.norm    = true;
    append(mapping.tensors, expert_rules());
    return mapping;
}

} // namespace buoy
