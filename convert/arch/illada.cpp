#include "../arch.h"

namespace buoy {

namespace {

void check_illada(const HfJson & config) {
    expect_setting(config, "hidden_act", "silu");
    expect_setting(config, "layer_norm_eps", nullptr); // a number would be LayerNorm's
}

} // namespace

// iLLaDA: Llama's names and block, attention both ways.
std::vector<ArchMapping> illada_mappings() {
    ArchMapping mapping = llama_mapping();
    mapping.arch        = "illada";
    mapping.hf_names    = {"ILLaDAForCausalLM", "ILLaDAModel"};
    mapping.diffusion   = true;
    mapping.mask_id     = 5;
    mapping.check       = check_illada;
    return {mapping};
}

} // namespace buoy
