#include "../arch.h"

namespace buoy {

namespace {

void check_llama(const HfJson & config) { expect_setting(config, "hidden_act", "silu"); }

} // namespace

// Llama 2 and 3; Mistral, exact up to its sliding window, which the GGUF architecture has not. Biases are only there
// where the config asks for them.
ArchMapping llama_mapping() {
    ArchMapping mapping;
    mapping.arch      = "llama";
    mapping.hf_names  = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", "MistralForCausalLM"};
    mapping.embedding = "model.embed_tokens.weight";
    mapping.head      = "lm_head.weight";
    mapping.check     = check_llama;
    mapping.tensors   = transformer_rules(Reorder::interleave_q, Reorder::interleave_k);
    append(mapping.tensors, qkv_bias_rules(Reorder::interleave_q, Reorder::interleave_k, Need::optional));

    constexpr Reorder none = Reorder::none;
    append(
        mapping.tensors,
        {
            {"model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias", Dim::embd, Dim::none, none,
             Need::optional},
            {"model.layers.{}.mlp.gate_proj.bias", "blk.{}.ffn_gate.bias", Dim::ff, Dim::none, none, Need::optional},
            {"model.layers.{}.mlp.up_proj.bias", "blk.{}.ffn_up.bias", Dim::ff, Dim::none, none, Need::optional},
            {"model.layers.{}.mlp.down_proj.bias", "blk.{}.ffn_down.bias", Dim::embd, Dim::none, none, Need::optional},
        });
    return mapping;
}

std::vector<ArchMapping> llama_mappings() { return {llama_mapping()}; }

} // namespace buoy
