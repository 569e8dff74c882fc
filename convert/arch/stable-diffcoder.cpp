#include "../arch.h"

namespace buoy {

// Stable-DiffCoder: Seed-Coder's Llama made block-causal. Its config has model_type "llama" and no length of a block, for that is the
// request's; 4 is recommended.
std::vector<ArchMapping> stable_diffcoder_mappings() {
    ArchMapping mapping  = llama_mapping();
    mapping.arch         = "stable-diffcoder";
    mapping.hf_names     = {"StableDiffcoderForCausalLM"};
    mapping.diffusion    = true;
    mapping.block_key    = "block_length";
    mapping.block_length = 4;
    mapping.mask_id      = 5;
    return {mapping};
}

} // namespace buoy
