#include "decode/step-count.h"

#include "decode/decode.h"

#include <algorithm>

namespace buoy {

int64_t step_count_max(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    if (!info.traits.is_diffusion()) {
        return params.n_predict;
    }
    std::vector<int32_t> tokens = prompt;
    tokens.resize(prompt.size() + static_cast<size_t>(params.n_predict), info.traits.mask_id);
    const auto    first    = std::find(tokens.begin(), tokens.end(), info.traits.mask_id);
    const int64_t n_masked = std::count(first, tokens.end(), info.traits.mask_id);

    const DenoiseSettings settings = resolve_settings(info, params);
    if (params.threshold || params.factor || settings.algorithm == Algorithm::eb || n_masked == 0) {
        return n_masked; // each step writes one at least
    }
    if (settings.schedule == Schedule::timesteps) {
        return params.steps > 0 ? params.steps : n_masked;
    }
    const int64_t length   = settings.block_length > 0 ? settings.block_length : tokens.end() - first;
    int64_t       n_blocks = 0; // with masks
    for (auto from = first; from != tokens.end();) {
        const auto to = from + std::min<int64_t>(length, tokens.end() - from);
        n_blocks += std::find(from, to, info.traits.mask_id) != to ? 1 : 0;
        from = to;
    }
    const int64_t n_steps = params.steps_per_block > 0 ? params.steps_per_block * n_blocks
                            : params.steps > 0         ? std::max<int64_t>(params.steps, n_blocks)
                                                       : n_masked;
    // a block of a shifted model may take a step for its first token besides
    return n_steps + (settings.schedule == Schedule::block_timesteps ? n_blocks : 0);
}

} // namespace buoy
