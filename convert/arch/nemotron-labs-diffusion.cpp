#include "../arch.h"

namespace buoy {

namespace {

void check_nemotron(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "attention_bias", false);
    expect_setting(config, "mlp_bias", false);
    expect_setting(config, "sliding_window", nullptr);
    expect_setting(config, "dlm_paradigm", "bidirectional");
}

} // namespace

// Nemotron-Labs-Diffusion: Ministral 3's block. The same weights read causally and write blocks both ways.
std::vector<ArchMapping> nemotron_labs_diffusion_mappings() {
    ArchMapping mapping;
    mapping.arch            = "nemotron-labs-diffusion";
    mapping.hf_names        = {"NemotronLabsDiffusionModel"};
    mapping.embedding       = "encoder.embed_tokens.weight";
    mapping.head            = "diffusion_head.weight";
    mapping.diffusion       = true;
    mapping.recommended_key = "block_size";
    mapping.check           = check_nemotron;
    mapping.tensors         = {
                {"encoder.norm.weight", "output_norm.weight", Dim::embd},
                {"encoder.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", Dim::embd},
                {"encoder.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", Dim::q, Dim::embd},
                {"encoder.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", Dim::kv, Dim::embd},
                {"encoder.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", Dim::kv, Dim::embd},
                {"encoder.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight", Dim::embd, Dim::q},
                {"encoder.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", Dim::embd},
                {"encoder.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", Dim::ff, Dim::embd},
                {"encoder.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", Dim::ff, Dim::embd},
                {"encoder.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight", Dim::embd, Dim::ff},
    };
    return {mapping};
}

} // namespace buoy
