#include "../arch.h"

namespace buoy {

namespace {

void check_dream(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_sliding_window", false);
}

} // namespace

// Dream-7B, Dream-Coder, DiffuCoder: a Qwen2.5 body that attends both ways, its rows shifted by one.
std::vector<ArchMapping> dream_mappings() {
    ArchMapping mapping;
    mapping.arch      = "dream";
    mapping.hf_names  = {"DreamModel", "DreamBaseModel", "DreamForCausalLM"};
    mapping.embedding = "model.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.diffusion = true;
    mapping.shift     = true;
    mapping.check     = check_dream;
    mapping.tensors   = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::required));
    return {mapping};
}

} // namespace buoy
