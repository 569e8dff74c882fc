#include "decode/decode.h"
#include "decode/selection.h"

#include <algorithm>

namespace buoy {

namespace {

// Dream's grid from 1 down to eps in float32, rounded as torch.linspace does it: from both ends towards the middle.
float timestep(int32_t i, int32_t n_steps, float eps) {
    const float step = (eps - 1.0f) / static_cast<float>(n_steps);
    return i < (n_steps + 1) / 2 ? 1.0f + step * static_cast<float>(i) : eps - step * static_cast<float>(n_steps - i);
}

// The share of the remaining masks that step i writes: everything in the last one.
float share_of_step(int32_t i, int32_t n_steps, float eps) {
    return i < n_steps - 1 ? 1.0f - timestep(i + 1, n_steps, eps) / timestep(i, n_steps, eps) : 1.0f;
}

} // namespace

int32_t count_of_step(const DenoiseSettings & settings, int32_t n_total, int32_t n_left, int32_t i, int32_t n_steps) {
    if (settings.even_steps) { // RND1 rounds what is left, not what is written
        return n_left - static_cast<int32_t>(n_total * (static_cast<double>(n_steps - 1 - i) / n_steps));
    }
    return static_cast<int32_t>(static_cast<float>(n_left) * share_of_step(i, n_steps, settings.eps));
}

namespace {

// origin: each position on its own, with the step's probability.
int32_t count_drawn(std::vector<Candidate> & ranked, float probability) {
    // rank() drew uniform scores, so those above 1 − p are a draw with probability p
    return static_cast<int32_t>(
        std::count_if(ranked.begin(), ranked.end(), [&](const Candidate & c) { return c.score > 1.0f - probability; }));
}

// Fast-dLLM's threshold for Dream: each step may look at a budget of the best; those below the threshold, but for the first, are
// left to the next step, which may look at more. What the last step leaves gets steps of its own.
void denoise_budget(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params, int32_t n_steps) {
    const RandomSource random(params.seed);
    const auto         n_total = static_cast<int32_t>(canvas.masked(canvas.first(), canvas.end()).size());
    int32_t            base    = n_total / n_steps;
    int32_t            left    = 0;
    for (int32_t i = 0; !canvas.is_done(); i++) {
        const std::vector<int32_t> positions = canvas.masked(canvas.first(), canvas.end());
        if (positions.empty()) {
            return;
        }
        if (i >= n_steps) {
            base = 0;
        }
        std::vector<Candidate> candidates = canvas.ask_all(positions);
        rank(candidates, settings.algorithm, params, {canvas.first(), canvas.end()}, random, canvas.step());
        const int32_t budget = std::max(1, base + left);
        candidates.resize(std::min(candidates.size(), static_cast<size_t>(budget)));
        const int32_t n = keep_above(candidates, *params.threshold);
        left            = budget - n;
        canvas.commit(candidates, n, 0);
    }
}

// One block of a shifted model with a cache: a full pass decides its first token (the row for it lies before the block), the
// passes after that see the block and decide the others from rows inside it.
void denoise_shifted_block(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                           const BlockSpan & block, int32_t index, int32_t n_steps) {
    const RandomSource random(params.seed);
    const int32_t      reach   = settings.cache == DiffusionCache::dual ? block.to : canvas.end();
    const auto         n_total = static_cast<int32_t>(canvas.masked(block.from, block.to).size());
    FullPasses         full_passes(params.cache_refresh);
    for (int32_t i = 0; !canvas.is_done(); i++) {
        std::vector<int32_t> positions = canvas.masked(block.from, block.to);
        if (positions.empty()) {
            return;
        }
        const bool opening = i == 0 && positions[0] == block.from;
        if (opening) {
            positions.resize(1);
        }
        const auto n_left = static_cast<int32_t>(positions.size());
        const auto due    = opening || params.threshold ? 1
                            : i < n_steps - 1           ? count_of_step(settings, n_total, n_left, i, n_steps)
                                                        : n_left;
        if (due == 0) {
            canvas.commit({}, 0, index);
            continue;
        }
        const bool             full = full_passes.next();
        std::vector<Candidate> candidates =
            canvas.ask(positions, full ? 0 : block.from, full ? canvas.end() : reach, KvUse::store);
        rank(candidates, settings.algorithm, params, block, random, canvas.step());
        canvas.commit(candidates, params.threshold ? keep_above(candidates, *params.threshold) : due, index);
    }
}

} // namespace

void denoise_timesteps(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params) {
    const auto    n_masked = static_cast<int32_t>(canvas.masked(canvas.first(), canvas.end()).size());
    const int32_t n_steps  = params.steps > 0 ? params.steps : n_masked;
    if (params.threshold) {
        // the reference's budget is a share per step; without steps there is nothing to share out
        denoise_budget(canvas, settings, params, params.steps > 0 ? n_steps : 1);
        return;
    }
    const RandomSource random(params.seed);
    for (int32_t i = 0; i < n_steps && !canvas.is_done(); i++) {
        const std::vector<int32_t> positions = canvas.masked(canvas.first(), canvas.end());
        const auto                 n_left    = static_cast<int32_t>(positions.size());
        const int32_t              due       = count_of_step(settings, n_masked, n_left, i, n_steps);
        if (n_left == 0 || (due == 0 && settings.algorithm != Algorithm::origin)) {
            canvas.commit({}, 0, 0);
            continue;
        }
        std::vector<Candidate> candidates = canvas.ask_all(positions);
        rank(candidates, settings.algorithm, params, {canvas.first(), canvas.end()}, random, canvas.step());
        const bool drawn = settings.algorithm == Algorithm::origin;
        canvas.commit(candidates, drawn ? count_drawn(candidates, share_of_step(i, n_steps, settings.eps)) : due, 0);
    }
}

void denoise_shifted_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params) {
    for_each_block(canvas, settings, params, denoise_shifted_block);
}

} // namespace buoy
