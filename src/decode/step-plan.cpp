#include "decode/step-plan.h"

#include "decode/decode.h"

#include <algorithm>

namespace buoy {

namespace {

// Follows denoise_blocks and denoise_timesteps with counts instead of tokens.
class Planner {
public:
    Planner(const DenoiseSettings & settings, const GenerateParams & params, std::vector<bool> masked)
        : settings_(settings), params_(params), masked_(std::move(masked)),
          first_(static_cast<int32_t>(std::find(masked_.begin(), masked_.end(), true) - masked_.begin())),
          end_(static_cast<int32_t>(masked_.size())) {
        plan_.open_ended = params.threshold || params.factor || settings.algorithm == Algorithm::eb ||
                           settings.algorithm == Algorithm::origin;
    }

    StepPlan make() {
        if (settings_.schedule == Schedule::timesteps) {
            plan_timesteps();
        } else {
            plan_blocks();
        }
        return plan_;
    }

private:
    void pass(int32_t from, int32_t to) { plan_.steps.push_back({from, to - from, end_}); }
    void pause() { plan_.steps.emplace_back(); }

    int32_t count_masked(const BlockSpan & block) const {
        return static_cast<int32_t>(std::count(masked_.begin() + block.from, masked_.begin() + block.to, true));
    }

    void plan_timesteps() {
        int32_t       n_left  = count_masked({first_, end_});
        const int32_t n_steps = params_.steps > 0 && !params_.threshold ? params_.steps : n_left;
        for (int32_t i = 0; i < n_steps; i++) {
            const int32_t due = plan_.open_ended ? 0 : count_of_step(n_left, i, n_steps, settings_.eps);
            if (plan_.open_ended || due > 0) {
                pass(0, end_);
            } else {
                pause();
            }
            n_left -= due;
        }
    }

    void plan_blocks() {
        const int32_t          length = settings_.block_length > 0 ? settings_.block_length : end_ - first_;
        std::vector<BlockSpan> blocks;
        for (int32_t from = first_; from < end_; from += std::min(length, end_ - from)) {
            const BlockSpan block = {from, from + std::min(length, end_ - from)};
            if (count_masked(block) > 0) {
                blocks.push_back(block);
            }
        }
        for (size_t i = 0; i < blocks.size(); i++) {
            const int32_t n_steps = block_steps(params_, static_cast<int32_t>(blocks.size()), static_cast<int32_t>(i),
                                                count_masked(blocks[i]));
            if (settings_.schedule == Schedule::block_timesteps) {
                plan_shifted_block(blocks[i], n_steps);
            } else {
                plan_block(blocks[i], n_steps);
            }
        }
    }

    void block_pass(const BlockSpan & block, bool full) {
        if (full || params_.cache == DiffusionCache::none) {
            pass(0, end_);
        } else {
            pass(block.from, params_.cache == DiffusionCache::prefix ? end_ : block.to);
        }
    }

    void plan_block(const BlockSpan & block, int32_t n_steps) {
        const int32_t n_masked = count_masked(block);
        FullPasses    full_passes(params_.cache_refresh);
        for (int32_t step = 0; step < (plan_.open_ended ? n_masked : n_steps); step++) {
            if (plan_.open_ended || transfer_count(n_masked, n_steps, step) > 0) {
                block_pass(block, full_passes.next());
            } else {
                pause();
            }
        }
    }

    void plan_shifted_block(const BlockSpan & block, int32_t n_steps) {
        int32_t    n_left = count_masked(block);
        FullPasses full_passes(params_.cache_refresh);
        for (int32_t i = 0; n_left > 0; i++) {
            const bool    opening = i == 0 && masked_[static_cast<size_t>(block.from)];
            const int32_t due     = opening || params_.threshold ? 1
                                    : i < n_steps - 1            ? count_of_step(n_left, i, n_steps, settings_.eps)
                                                                 : n_left;
            if (due > 0) {
                block_pass(block, full_passes.next());
            } else {
                pause();
            }
            n_left -= due;
        }
    }

    const DenoiseSettings & settings_;
    const GenerateParams &  params_;
    std::vector<bool>       masked_;
    int32_t                 first_; // the first mask
    int32_t                 end_;
    StepPlan                plan_;
};

} // namespace

StepPlan plan_steps(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    if (!info.traits.is_diffusion()) {
        StepPlan   plan;
        const auto n_prompt = static_cast<int32_t>(prompt.size());
        for (int32_t step = 0; step < params.n_predict; step++) {
            const int32_t position = n_prompt + step - 1; // of the last token
            plan.steps.push_back(step == 0 ? PlannedStep{0, n_prompt, n_prompt}
                                           : PlannedStep{position, 1, position + 1});
        }
        return plan;
    }
    std::vector<bool> masked;
    for (int32_t id : prompt) {
        masked.push_back(id == info.traits.mask_id);
    }
    masked.resize(prompt.size() + static_cast<size_t>(params.n_predict), true);
    return Planner(resolve_settings(info, params), params, std::move(masked)).make();
}

} // namespace buoy
