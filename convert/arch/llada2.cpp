#include "../arch.h"

namespace buoy {

namespace {

void check_llada2(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "use_qk_norm", true);
    expect_setting(config, "use_rmsnorm", true);
    expect_setting(config, "use_sliding_window", false);
    expect_setting(config, "norm_head", false);
    expect_setting(config, "score_function", "sigmoid");
    expect_setting(config, "using_split_qkv_in_self_attention", false);
}

} // namespace

// LLaDA2.0 and 2.1: Ling 2.0's block (bailingmoe2 upstream, whose names these are) made block-causal. Its code always makes the
// chosen experts' weights sum to one.
std::vector<ArchMapping> llada2_mappings() {
    ArchMapping mapping;
    mapping.arch                 = "llada2";
    mapping.hf_names             = {"LLaDA2MoeModelLM", "LLaDA2MoeModel"};
    mapping.embedding            = "model.word_embeddings.weight";
    mapping.head                 = "lm_head.weight";
    mapping.diffusion            = true;
    mapping.block_key            = "block_size";
    mapping.block_length         = 32;
    mapping.check                = check_llada2;
    mapping.moe.norm_from_config = false;
    mapping.moe.norm             = true;
    mapping.moe.sigmoid          = true;
    mapping.moe.scaled           = true;

    constexpr Reorder none     = Reorder::none;
    constexpr Need    must     = Need::required;
    constexpr Need    optional = Need::optional;
    constexpr Layers  dense    = Layers::dense;
    constexpr Layers  sparse   = Layers::sparse;

    mapping.tensors = {
        {"model.norm.weight", "output_norm.weight", Dim::embd},
        {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", Dim::embd},
        {"model.layers.{}.attention.query_key_value.weight", "blk.{}.attn_qkv.weight", Dim::qkv, Dim::embd},
        {"model.layers.{}.attention.query_key_value.bias", "blk.{}.attn_qkv.bias", Dim::qkv, Dim::none, none, optional},
        {"model.layers.{}.attention.query_layernorm.weight", "blk.{}.attn_q_norm.weight", Dim::head},
        {"model.layers.{}.attention.key_layernorm.weight", "blk.{}.attn_k_norm.weight", Dim::head},
        {"model.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight", Dim::embd, Dim::q},
        {"model.layers.{}.attention.dense.bias", "blk.{}.attn_output.bias", Dim::embd, Dim::none, none, optional},
        {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", Dim::embd},
        {"model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", Dim::ff, Dim::embd, none, must, dense},
        {"model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", Dim::ff, Dim::embd, none, must, dense},
        {"model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight", Dim::embd, Dim::ff, none, must, dense},
        {"model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias", Dim::expert, Dim::none, none, optional,
         sparse},
        {"model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Dim::ff_shared,
         Dim::embd, none, optional, sparse},
        {"model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Dim::ff_shared, Dim::embd,
         none, optional, sparse},
        {"model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Dim::embd,
         Dim::ff_shared, none, optional, sparse},
    };
    append(mapping.tensors, expert_rules());
    return {mapping};
}

} // namespace buoy
