#include "decode/decode.h"
#include "decode/selection.h"

#include <algorithm>

namespace buoy {

int32_t block_steps(const GenerateParams & params, int32_t n_blocks, int32_t index, int32_t n_masked) {
    const int32_t share = params.steps_per_block > 0 ? params.steps_per_block
                          : params.steps > 0         ? transfer_count(params.steps, n_blocks, index)
                                                     : n_masked; // one token a step
    return std::max(1, share);
}

void for_each_block(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                    DenoiseBlock denoise) {
    const int32_t n_total  = canvas.end() - canvas.first();
    const int32_t n_blocks = (n_total + settings.block_length - 1) / settings.block_length;
    const auto    span     = [&](int32_t index) {
        const int32_t from = canvas.first() + index * settings.block_length;
        return BlockSpan{from, std::min(from + settings.block_length, canvas.end())};
    };
    int32_t n_masked_blocks = 0; // blocks of given text alone take no steps
    for (int32_t index = 0; index < n_blocks; index++) {
        n_masked_blocks += canvas.masked(span(index).from, span(index).to).empty() ? 0 : 1;
    }
    int32_t n_before = 0;
    for (int32_t index = 0; index < n_blocks && !canvas.is_done(); index++) {
        const BlockSpan block    = span(index);
        const auto      n_masked = static_cast<int32_t>(canvas.masked(block.from, block.to).size());
        if (n_masked == 0) {
            continue;
        }
        denoise(canvas, settings, params, block, index, block_steps(params, n_masked_blocks, n_before, n_masked));
        n_before++;
    }
}

namespace {

// How far a pass reaches in each cache mode, seen from the block [from, to).
struct Pass {
    int32_t from;
    int32_t to;
    KvUse   kv;
};

Pass choose_pass(const Canvas & canvas, DiffusionCache cache, bool full, const BlockSpan & block) {
    if (cache == DiffusionCache::none) {
        return {0, canvas.end(), KvUse::none};
    }
    if (full) {
        return {0, canvas.end(), KvUse::store};
    }
    return {block.from, cache == DiffusionCache::prefix ? canvas.end() : block.to, KvUse::store};
}

int32_t choose_count(std::vector<Candidate> & ranked, Algorithm algorithm, const GenerateParams & params,
                     int32_t scheduled) {
    if (params.threshold) {
        return keep_above(ranked, *params.threshold);
    }
    if (params.factor) {
        return count_by_factor(ranked, *params.factor);
    }
    if (algorithm == Algorithm::eb) {
        return count_by_entropy(ranked, params.eb_gamma);
    }
    return scheduled;
}

void denoise_block(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params,
                   const BlockSpan & block, int32_t index, int32_t n_steps) {
    const RandomSource random(params.seed);
    const auto         n_masked   = static_cast<int32_t>(canvas.masked(block.from, block.to).size());
    const bool         open_ended = settings.open_ended(params);
    FullPasses         full_passes(params.cache_refresh);
    for (int32_t step = 0; (open_ended || step < n_steps) && !canvas.is_done(); step++) {
        std::vector<int32_t> positions = canvas.masked(block.from, block.to);
        const int32_t        scheduled = open_ended ? 1 : transfer_count(n_masked, n_steps, step);
        if (positions.empty() && open_ended) {
            return;
        }
        if (scheduled == 0 || positions.empty()) { // a step of the schedule in which nothing is due
            canvas.commit({}, 0, index);
            continue;
        }
        // the linear rule normalises over the whole block, written positions included
        std::vector<int32_t> asked = positions;
        if (settings.algorithm == Algorithm::pc_linear) {
            asked.clear();
            for (int32_t position = block.from; position < block.to; position++) {
                asked.push_back(position);
            }
        }
        const Pass             pass       = choose_pass(canvas, settings.cache, full_passes.next(), block);
        std::vector<Candidate> candidates = canvas.ask(asked, pass.from, pass.to, pass.kv);
        for (Candidate & c : candidates) {
            c.id = canvas.is_masked(c.position) ? c.id : canvas.token(c.position);
        }
        rank(candidates, settings.order, params, block, random, canvas.step());
        candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                        [&](const Candidate & c) { return !canvas.is_masked(c.position); }),
                         candidates.end());
        canvas.commit(candidates, choose_count(candidates, settings.algorithm, params, scheduled), index);
    }
}

} // namespace

void denoise_blocks(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params) {
    for_each_block(canvas, settings, params, denoise_block);
}

} // namespace buoy
