#include "../arch.h"

namespace buoy {

// Fast-dLLM v2: Qwen2.5 made block-causal, its rows still shifted by one.
std::vector<ArchMapping> fast_dllm_v2_mappings() {
    ArchMapping mapping  = qwen2_mapping();
    mapping.arch         = "fast-dllm-v2";
    mapping.hf_names     = {"Fast_dLLM_QwenForCausalLM", "Fast_dLLM_QwenModel"};
    mapping.diffusion    = true;
    mapping.shift        = true;
    mapping.block_key    = "bd_size";
    mapping.block_length = 32;
    return {mapping};
}

} // namespace buoy
