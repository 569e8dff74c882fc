#include "rope-factors.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

// Gemma 4's rope type "proportional": frequencies of the whole head, of which only the first are used. A divisor as large as this stops
// the others.
std::vector<float> global_factors(const WindowParams & window) {
    std::vector<float> factors(static_cast<size_t>(window.head_dim_global / 2), 1e30F);
    std::fill_n(factors.begin(), window.n_pairs_global, 1.0F);
    return factors;
}

} // namespace

// Llama 3's scaling as one divisor per frequency: long waves are slowed by the factor, short ones are kept, and in
// between the two blend (rope type "llama3" of Hugging Face).
std::optional<PlannedTensor> plan_rope_factors(const HfParams & params) {
    const RopeScaling & rope = params.rope;
    PlannedTensor       planned;
    planned.name   = "rope_freqs.weight";
    planned.n_dims = 1;
    if (params.window.size > 0) {
        planned.values = global_factors(params.window);
        planned.n_rows = params.window.head_dim_global / 2;
        return planned;
    }
    if (rope.kind != HfRopeKind::llama3) {
        return std::nullopt;
    }
    planned.n_rows = params.n_rot / 2;

    const double n_ctx = static_cast<double>(rope.n_ctx_original);
    for (int64_t i = 0; i < planned.n_rows; ++i) {
        const double exponent = static_cast<double>(2 * i) / static_cast<double>(params.n_rot);
        const double wave     = 2 * M_PI * std::pow(params.rope_base, exponent);
        const double blend    = (n_ctx / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
        const double kept     = std::clamp(blend, 0.0, 1.0);
        planned.values.push_back(static_cast<float>(1 / ((1 - kept) / rope.factor + kept)));
    }
    return planned;
}

} // namespace buoy
