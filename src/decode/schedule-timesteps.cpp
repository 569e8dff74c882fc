// Timesteps: over everything at once (Dream, arXiv 2508.15487), and within blocks (Fast-dLLM's code for Dream).

#include "decode/schedule.h"

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

// How many of the n_left masks, once n_total, step i of n_steps writes.
int32_t count_of_step(const DecodeSettings & settings, int32_t n_total, int32_t n_left, int32_t i, int32_t n_steps) {
    if (settings.even_steps) { // RND1 rounds what is left, not what is written
        return n_left - static_cast<int32_t>(n_total * (static_cast<double>(n_steps - 1 - i) / n_steps));
    }
    return static_cast<int32_t>(static_cast<float>(n_left) * share_of_step(i, n_steps, settings.eps));
}

// Everything that is masked is asked about in every pass.
Pass whole_pass(const Canvas & canvas) {
    Pass pass;
    pass.to    = canvas.end();
    pass.span  = {canvas.first(), canvas.end()};
    pass.asked = canvas.masked(pass.span);
    return pass;
}

class Timesteps : public Schedule {
public:
    Timesteps(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : settings_(settings), n_total_(static_cast<int32_t>(whole_pass(canvas).asked.size())),
          n_steps_(params.steps > 0 ? params.steps : n_total_) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        if (i_ >= n_steps_ || canvas.is_done()) {
            return {};
        }
        Pass       pass   = whole_pass(canvas);
        const auto n_left = static_cast<int32_t>(pass.asked.size());
        pass.due          = count_of_step(settings_, n_total_, n_left, i_, n_steps_);
        pass.share        = share_of_step(i_, n_steps_, settings_.eps);
        i_++;
        if (n_left == 0 || (pass.due == 0 && !settings_.open_ended)) {
            pass.kind = PassKind::pause;
        }
        return pass;
    }

private:
    const DecodeSettings & settings_;
    const int32_t          n_total_;
    const int32_t          n_steps_;
    int32_t                i_ = 0;
};

// Fast-dLLM's threshold for Dream: each step may look at a budget of the best; those below the threshold, but for the first, are
// left to the next step, which may look at more. What the last step leaves gets steps of its own.
class Budget : public Schedule {
public:
    // the reference's budget is a share per step; without steps there is nothing to share out
    Budget(const GenerateParams & params, const Canvas & canvas)
        : n_steps_(std::max(params.steps, 1)),
          share_(static_cast<int32_t>(whole_pass(canvas).asked.size()) / n_steps_) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        Pass pass = whole_pass(canvas);
        if (pass.asked.empty() || canvas.is_done()) {
            return {};
        }
        const int32_t left = i_ > 0 ? limit_ - canvas.n_written() : 0;
        limit_             = std::max(1, (i_ < n_steps_ ? share_ : 0) + left);
        pass.due           = 1;
        pass.limit         = limit_;
        i_++;
        return pass;
    }

private:
    const int32_t n_steps_;
    const int32_t share_;
    int32_t       limit_ = 0; // of the step before
    int32_t       i_     = 0;
};

// Blocks of a shifted model with a cache: a full pass decides a block's first token (the row for it lies before the block), the passes
// after that see the block and decide the others from rows inside it.
class BlockTimesteps : public Schedule {
public:
    BlockTimesteps(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : settings_(settings), params_(params), walk_(settings, params, canvas), full_passes_(0) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        if (block_ && !canvas.has_masks(block_->span)) {
            block_.reset();
        }
        if (!block_ && !canvas.is_done()) {
            block_       = walk_.next(canvas);
            i_           = 0;
            full_passes_ = FullPasses(params_.cache_refresh);
        }
        return block_ && !canvas.is_done() ? std::optional(next_step(canvas)) : std::nullopt;
    }

private:
    Pass next_step(const Canvas & canvas) {
        Pass pass;
        pass.block         = block_->index;
        pass.span          = block_->span;
        pass.asked         = canvas.masked(block_->span);
        const bool opening = i_ == 0 && pass.asked[0] == pass.span.from;
        if (opening) {
            pass.asked.resize(1);
        }
        const auto n_left = static_cast<int32_t>(pass.asked.size());
        pass.due          = opening || params_.threshold ? 1
                            : i_ < block_->n_steps - 1 ? count_of_step(settings_, block_->n_masked, n_left, i_, block_->n_steps)
                                                       : n_left;
        i_++;
        if (pass.due == 0) {
            pass.kind = PassKind::pause;
            return pass;
        }
        const bool full = full_passes_.next();
        pass.kv         = KvUse::store;
        pass.from       = full ? 0 : pass.span.from;
        pass.to         = full || settings_.cache != DiffusionCache::dual ? canvas.end() : pass.span.to;
        return pass;
    }

    const DecodeSettings &     settings_;
    const GenerateParams &     params_;
    BlockWalk                  walk_;
    std::optional<MaskedBlock> block_;
    int32_t                    i_ = 0; // step of the block
    FullPasses                 full_passes_;
};

} // namespace

std::unique_ptr<Schedule> make_timesteps(const DecodeSettings & settings, const GenerateParams & params,
                                         const Canvas & canvas) {
    if (params.threshold) {
        return std::make_unique<Budget>(params, canvas);
    }
    return std::make_unique<Timesteps>(settings, params, canvas);
}

std::unique_ptr<Schedule> make_block_timesteps(const DecodeSettings & settings, const GenerateParams & params,
                                               const Canvas & canvas) {
    return std::make_unique<BlockTimesteps>(settings, params, canvas);
}

} // namespace buoy
