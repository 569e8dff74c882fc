#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace buoy {

class HfJson;

// What a reference implementation does whatever its config says, or where that is silent.
struct MoeDefaults {
    bool norm_from_config = true;  // norm_topk_prob decides whether the chosen experts' weights are made to sum to one
    bool norm             = false; // else
    bool sigmoid          = false; // scores are sigmoids instead of a softmax
    bool scaled           = false; // routed_scaling_factor is applied
    bool shared_by_width =
        false; // shared_expert_intermediate_size is the width of the only shared expert, null for none
};

// A mixture of experts, by whatever names the config has for it.
struct MoeParams {
    int64_t           n_expert     = 0; // 0: none, every layer is ordinary
    int64_t           n_used       = 0;
    int64_t           n_ff         = 0; // width of one expert
    int64_t           n_shared     = 0; // experts that every token goes through
    int64_t           n_ff_shared  = 0; // width of one of these
    int64_t           n_group      = 0; // 0: experts are chosen among all
    int64_t           n_group_used = 0;
    bool              norm         = false;
    bool              sigmoid      = false;
    double            scale        = 1.0;
    std::vector<bool> dense; // [n_layer], those without experts

    bool is_dense(int64_t layer) const { return n_expert == 0 || dense[static_cast<size_t>(layer)]; }
};

MoeParams read_moe(const HfJson & config, const MoeDefaults & defaults, int64_t n_layer);

} // namespace buoy
