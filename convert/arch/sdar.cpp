#include "../arch.h"

namespace buoy {

namespace {

ArchMapping sdar_body() {
    ArchMapping mapping  = qwen3_mapping();
    mapping.diffusion    = true;
    mapping.block_key    = "block_size";
    mapping.block_length = 4;
    return mapping;
}

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

} // namespace

std::vector<ArchMapping> sdar_mappings() { return {sdar_mapping(), sdar_moe_mapping()}; }

} // namespace buoy
