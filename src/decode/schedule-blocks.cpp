// Blocks from left to right (LLaDA, arXiv 2502.09992), with Fast-dLLM's caches and parallel rules (arXiv 2505.22618).

#include "decode/adaptive-cache.h"
#include "decode/schedule.h"

#include <algorithm>
#include <numeric>

namespace buoy {

int32_t block_steps(const GenerateParams & params, int32_t n_blocks, int32_t index, int32_t n_masked) {
    const int32_t share = params.steps_per_block > 0 ? params.steps_per_block
                          : params.steps > 0         ? transfer_count(params.steps, n_blocks, index)
                                                     : n_masked; // one token a step
    return std::max(1, share);
}

BlockWalk::BlockWalk(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
    : params_(params) {
    const int32_t n_total = canvas.end() - canvas.first();
    block_length_         = settings.block_length > 0 ? settings.block_length : std::max(n_total, 1);
    n_blocks_             = n_total / block_length_ + (n_total % block_length_ > 0 ? 1 : 0);
    for (int32_t index = 0; index < n_blocks_; index++) {
        n_masked_blocks_ += canvas.has_masks(span(canvas, index)) ? 1 : 0;
    }
}

BlockSpan BlockWalk::span(const Canvas & canvas, int32_t index) const {
    const int32_t from = canvas.first() + index * block_length_;
    return {from, from + std::min(block_length_, canvas.end() - from)};
}

std::optional<MaskedBlock> BlockWalk::next(const Canvas & canvas) {
    for (; index_ < n_blocks_; index_++) {
        const BlockSpan block    = span(canvas, index_);
        const auto      n_masked = static_cast<int32_t>(canvas.masked(block).size());
        if (n_masked > 0) {
            return MaskedBlock{block, index_++, n_masked,
                               block_steps(params_, n_masked_blocks_, n_before_++, n_masked)};
        }
    }
    return {};
}

namespace {

class Blocks : public Schedule {
public:
    Blocks(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : settings_(settings), params_(params), walk_(settings, params, canvas), full_passes_(0),
          adaptive_(make_adaptive(settings, params, canvas)) {
        const SettingReader s(params, settings.shift);
        n_transfer_ = settings.is_adaptive() && s.is_set("num_transfer_tokens") ? s.whole("num_transfer_tokens") : 0;
    }

    void see(const RuleInput & in) override {
        if (adaptive_) {
            adaptive_->see(in);
        }
    }

    void end_step(Canvas &, StepReport & report) override {
        if (adaptive_ && !report.confidence.empty()) {
            adaptive_->report(report);
        }
    }

    std::optional<Pass> next(const Canvas & canvas) override {
        while (!is_done(canvas)) {
            if (!block_) {
                block_       = walk_.next(canvas);
                step_        = 0;
                full_passes_ = FullPasses(params_.cache_refresh);
            }
            if (!block_) {
                return {};
            }
            const bool over =
                settings_.open_ended || adaptive_ ? !canvas.has_masks(block_->span) : step_ == block_->n_steps;
            if (!over) {
                return next_step(canvas);
            }
            block_.reset();
        }
        return {};
    }

private:
    bool is_done(const Canvas & canvas) const {
        const bool held = block_ && algorithm_row(settings_.algorithm).takes_back && canvas.has_masks(block_->span);
        return canvas.is_stopped() || (canvas.ended() && !held);
    }

    int32_t due() const {
        if (adaptive_) { // never nothing, and as long as there are masks
            const bool on_time = step_ < block_->n_steps && !settings_.open_ended;
            return n_transfer_ > 0
                       ? n_transfer_
                       : std::max(1, on_time ? transfer_count(block_->n_masked, block_->n_steps, step_) : 1);
        }
        const bool counted =
            !settings_.open_ended || (algorithm_row(settings_.algorithm).counts_steps && !settings_.shift);
        return counted && step_ < block_->n_steps ? transfer_count(block_->n_masked, block_->n_steps, step_) : 1;
    }

    Pass next_step(const Canvas & canvas) {
        Pass pass;
        pass.block = block_->index;
        pass.span  = block_->span;
        pass.asked = canvas.masked(block_->span);
        pass.due   = due();
        step_++;
        if ((pass.due == 0 && !settings_.open_ended) || pass.asked.empty()) {
            pass.kind = PassKind::pause;
            return pass;
        }
        if (algorithm_row(settings_.algorithm).score_block != nullptr) {
            pass.asked.resize(static_cast<size_t>(pass.span.to - pass.span.from));
            std::iota(pass.asked.begin(), pass.asked.end(), pass.span.from);
        }
        if (adaptive_) {
            pass.kv = KvUse::store;
            pass.to = canvas.end();
            adaptive_->prepare(canvas, pass);
            return pass;
        }
        const bool cached = settings_.cache != DiffusionCache::none;
        const bool full   = full_passes_.next() || !cached;
        pass.kv           = cached ? KvUse::store : KvUse::none;
        pass.from         = full ? 0 : pass.span.from;
        const bool all    = (full || settings_.cache == DiffusionCache::prefix) && !settings_.append_blocks;
        pass.to           = all ? canvas.end() : pass.span.to;
        return pass;
    }

    const DecodeSettings &     settings_;
    const GenerateParams &     params_;
    BlockWalk                  walk_;
    std::optional<MaskedBlock> block_;
    int32_t                    step_ = 0; // of the block
    FullPasses                 full_passes_;

    const std::unique_ptr<AdaptiveCache> adaptive_;       // null: none
    int32_t                              n_transfer_ = 0; // positions that a step writes; 0: as the steps make due
};

} // namespace

std::unique_ptr<Schedule> make_blocks(const DecodeSettings & settings, const GenerateParams & params,
                                      const Canvas & canvas) {
    return std::make_unique<Blocks>(settings, params, canvas);
}

} // namespace buoy
