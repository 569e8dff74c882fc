#include "../arch.h"

namespace buoy {

namespace {

ArchMapping qwen3moe_body() {
    ArchMapping mapping = qwen3_mapping();
    append(mapping.tensors, expert_rules());
    return mapping;
}

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

} // namespace

std::vector<ArchMapping> qwen3moe_mappings() { return {qwen3moe_mapping(), rnd1_mapping()}; }

} // namespace buoy
