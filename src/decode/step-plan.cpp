#include "decode/step-plan.h"

#include "decode/decode.h"

#include <algorithm>

namespace buoy {

namespace {

// Follows denoise_blocks and denoise_timesteps with counts instead of tokens.
class Planner {
public:
    Planner(const DenoiseSettings & settings, const GenerateParams & params, std::vector<bool> masked, bool shift,
            int32_t wanted)
        : settings_(settings), params_(params), masked_(std::move(masked)), shift_(shift), wanted_(wanted),
          first_(static_cast<int32_t>(std::find(masked_.begin(), masked_.end(), true) - masked_.begin())),
          end_(static_cast<int32_t>(masked_.size())) {
        plan_.open_ended = settings.open_ended(params) || settings.algorithm == Algorithm::origin;
    }

    StepPlan make() {
        if (settings_.schedule == Schedule::block_causal) {
            plan_block_causal();
        } else if (settings_.schedule == Schedule::timesteps) {
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
        const int32_t n_total = n_left;
        const int32_t n_steps = params_.steps > 0 && !params_.threshold ? params_.steps : n_left;
        for (int32_t i = 0; i < n_steps; i++) {
            const int32_t due = plan_.open_ended ? 0 : count_of_step(settings_, n_total, n_left, i, n_steps);
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

    // Follows BlockDecoder, observed: nothing is stored before the first step.
    void plan_block_causal() {
        const int32_t          B = settings_.block_length;
        std::vector<BlockSpan> blocks;
        for (int32_t from = first_ / B * B; from < end_; from += B) {
            const BlockSpan block = {from, std::min(from + B, end_)};
            if (count_masked(block) > 0) {
                blocks.push_back(block);
            }
        }
        // which positions of a last block that is not wanted whole are written first, and which passes cover part of a block, the
        // model decides
        plan_.open_ended = plan_.open_ended || wanted_ < end_ || settings_.cache == DiffusionCache::dual;
        for (size_t i = 0; i < blocks.size() && blocks[i].from < wanted_; i++) {
            plan_causal_block(blocks[i],
                              block_steps(params_, static_cast<int32_t>(blocks.size()), static_cast<int32_t>(i), B));
        }
    }

    void causal_pass(const BlockSpan & block, int32_t to) {
        const int32_t from = settings_.cache == DiffusionCache::none ? 0 : n_stored_;
        plan_.steps.push_back({from, to - from, to});
        n_stored_ = block.from;
    }

    void plan_causal_block(const BlockSpan & block, int32_t n_steps) {
        const bool opened = shift_ && block.from > 0 && masked_[static_cast<size_t>(block.from)];
        if (opened) {
            causal_pass(block, block.from);
        }
        const int32_t part = settings_.sub_block_length > 0 ? settings_.sub_block_length : settings_.block_length;
        int32_t       i    = 0;
        for (int32_t from = block.from; from < std::min(block.to, wanted_); from += part) {
            int32_t n_left =
                count_masked({from, std::min(from + part, block.to)}) - (opened && from == block.from ? 1 : 0);
            int32_t n_post = params_.edit_threshold ? params_.post_steps : 0;
            for (; n_left > 0 || n_post > 0; i++) {
                const int32_t due =
                    settings_.open_ended(params_) ? 1 : block_due(params_, settings_.block_length, n_steps, i);
                if (due > 0) {
                    causal_pass(block, block.to);
                } else {
                    pause();
                }
                n_post -= n_left > 0 ? 0 : 1;
                n_left = std::max(0, n_left - due);
            }
        }
    }

    void block_pass(const BlockSpan & block, bool full) {
        if (full || settings_.cache == DiffusionCache::none) {
            pass(0, end_);
        } else {
            pass(block.from, settings_.cache == DiffusionCache::prefix ? end_ : block.to);
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
        int32_t       n_left  = count_masked(block);
        const int32_t n_total = n_left;
        FullPasses    full_passes(params_.cache_refresh);
        for (int32_t i = 0; n_left > 0; i++) {
            const bool    opening = i == 0 && masked_[static_cast<size_t>(block.from)];
            const int32_t due     = opening || params_.threshold ? 1
                                    : i < n_steps - 1            ? count_of_step(settings_, n_total, n_left, i, n_steps)
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
    const bool              shift_;
    const int32_t           wanted_; // what lies behind only completes a block
    int32_t                 n_stored_ = 0;
    int32_t                 first_; // the first mask
    int32_t                 end_;
    StepPlan                plan_;
};

} // namespace

int32_t canvas_length(const ModelInfo & info, const GenerateParams & params, size_t n_prompt) {
    const int64_t n = static_cast<int64_t>(n_prompt) + params.n_predict;
    if (!info.traits.is_diffusion() || info.traits.attention != AttentionKind::block_causal || params.n_predict == 0) {
        return static_cast<int32_t>(n);
    }
    const int64_t B = resolve_settings(info, params).block_length;
    return static_cast<int32_t>((n + B - 1) / B * B);
}

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
    masked.resize(static_cast<size_t>(canvas_length(info, params, prompt.size())), true);
    if (info.traits.closing_id >= 0 && params.n_predict > 1) {
        masked.back() = false;
    }
    const auto wanted = static_cast<int32_t>(prompt.size()) + params.n_predict;
    return Planner(resolve_settings(info, params), params, std::move(masked), info.traits.shift, wanted).make();
}

} // namespace buoy
