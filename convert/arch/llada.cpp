#include "../arch.h"

namespace buoy {

namespace {

void check_llada(const HfJson & config) {
    expect_setting(config, "block_type", "llama");
    expect_setting(config, "layer_norm_type", "rms");
    expect_setting(config, "activation_type", "silu");
    expect_setting(config, "rope", true);
    expect_setting(config, "alibi", false);
    expect_setting(config, "attention_layer_norm", false);
    expect_setting(config, "input_emb_norm", false);
    expect_setting(config, "scale_logits", false);
    expect_setting(config, "block_group_size", 1);
}

} // namespace

// LLaDA-8B, LLaDA-1.5: a Llama block that attends both ways. ff_proj is the gate, the block's ff_out is down.
std::vector<ArchMapping> llada_mappings() {
    ArchMapping mapping;
    mapping.arch      = "llada";
    mapping.hf_names  = {"LLaDAModelLM", "LLaDAModel"};
    mapping.embedding = "model.transformer.wte.weight";
    mapping.head      = "model.transformer.ff_out.weight";
    mapping.diffusion = true;
    mapping.check     = check_llada;

    constexpr Reorder q    = Reorder::interleave_q;
    constexpr Reorder k    = Reorder::interleave_k;
    constexpr Reorder none = Reorder::none;

    mapping.tensors = {
        {"model.transformer.ln_f.weight", "output_norm.weight", Dim::embd},
        {"model.transformer.blocks.{}.attn_norm.weight", "blk.{}.attn_norm.weight", Dim::embd},
        {"model.transformer.blocks.{}.q_proj.weight", "blk.{}.attn_q.weight", Dim::q, Dim::embd, q},
        {"model.transformer.blocks.{}.k_proj.weight", "blk.{}.attn_k.weight", Dim::kv, Dim::embd, k},
        {"model.transformer.blocks.{}.v_proj.weight", "blk.{}.attn_v.weight", Dim::kv, Dim::embd},
        {"model.transformer.blocks.{}.q_proj.bias", "blk.{}.attn_q.bias", Dim::q, Dim::none, q, Need::optional},
        {"model.transformer.blocks.{}.k_proj.bias", "blk.{}.attn_k.bias", Dim::kv, Dim::none, k, Need::optional},
        {"model.transformer.blocks.{}.v_proj.bias", "blk.{}.attn_v.bias", Dim::kv, Dim::none, none, Need::optional},
        {"model.transformer.blocks.{}.attn_out.weight", "blk.{}.attn_output.weight", Dim::embd, Dim::q},
        {"model.transformer.blocks.{}.ff_norm.weight", "blk.{}.ffn_norm.weight", Dim::embd},
        {"model.transformer.blocks.{}.ff_proj.weight", "blk.{}.ffn_gate.weight", Dim::ff, Dim::embd},
        {"model.transformer.blocks.{}.up_proj.weight", "blk.{}.ffn_up.weight", Dim::ff, Dim::embd},
        {"model.transformer.blocks.{}.ff_out.weight", "blk.{}.ffn_down.weight", Dim::embd, Dim::ff},
    };
    return {mapping};
}

} // namespace buoy
