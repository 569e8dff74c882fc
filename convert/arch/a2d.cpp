#include "../arch.h"

namespace buoy {

namespace {

// They keep their base's architecture: attention.causal = false and the mask token are what makes them diffusion models.
ArchMapping made_diffusion(ArchMapping base, const char * hf_name, const char * hf_model) {
    base.hf_names  = {hf_name, hf_model};
    base.diffusion = true;
    base.block_key = "block_size";
    return base;
}

// dllm's autoregressive models made into diffusion models. Those trained with blocks (BD3LM) have no key for it in their config.
ArchMapping a2d_llama_mapping() { return made_diffusion(llama_mapping(), "A2DLlamaLMHeadModel", "A2DLlamaModel"); }
ArchMapping a2d_qwen2_mapping() { return made_diffusion(qwen2_mapping(), "A2DQwen2LMHeadModel", "A2DQwen2Model"); }
ArchMapping a2d_qwen3_mapping() { return made_diffusion(qwen3_mapping(), "A2DQwen3LMHeadModel", "A2DQwen3Model"); }

} // namespace

std::vector<ArchMapping> a2d_mappings() { return {a2d_llama_mapping(), a2d_qwen2_mapping(), a2d_qwen3_mapping()}; }

} // namespace buoy
