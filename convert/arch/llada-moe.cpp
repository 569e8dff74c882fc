#include "../arch.h"

namespace buoy {

namespace {

void check_llada_moe(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "qk_layernorm", true);
    expect_setting(config, "partial_rotary_factor", 1.0);
    expect_setting(config, "moe_router_score_function", "softmax");
    expect_setting(config, "moe_router_enable_expert_bias", false);
    expect_setting(config, "clip_qkv", false);
}

} // namespace

// LLaDA-MoE-7B-A1B: OLMoE's block with norms per head, attending both ways. Its code never renormalises the experts' weights. The
// shared expert that its code knows belongs to the layer, not to its mlp; no published checkpoint has one.
std::vector<ArchMapping> llada_moe_mappings() {
    ArchMapping mapping;
    mapping.arch                 = "llada-moe";
    mapping.hf_names             = {"LLaDAMoEModelLM", "LLaDAMoEModel"};
    mapping.embedding            = "model.embed_tokens.weight";
    mapping.head                 = "lm_head.weight";
    mapping.diffusion            = true;
    mapping.check                = check_llada_moe;
    mapping.moe.norm_from_config = false;
    mapping.moe.shared_by_width  = true;
    mapping.tensors              = transformer_rules(Reorder::none, Reorder::none);
    append(mapping.tensors, qkv_bias_rules(Reorder::none, Reorder::none, Need::optional));
    append(mapping.tensors, qwen3_attention_rules());
    append(mapping.tensors, expert_rules());
    append(mapping.tensors, {
                                {"model.layers.{}.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight",
                                 Dim::ff_shared, Dim::embd, Reorder::none, Need::optional, Layers::sparse},
                                {"model.layers.{}.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight",
                                 Dim::ff_shared, Dim::embd, Reorder::none, Need::optional, Layers::sparse},
                                {"model.layers.{}.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight",
                                 Dim::embd, Dim::ff_shared, Reorder::none, Need::optional, Layers::sparse},
                            });
    return {mapping};
}

} // namespace buoy
