// Blocks tiled from position 0 with exact K/V of those that are finished: SDAR (arXiv 2510.06303), LLaDA2, Stable-DiffCoder, and with
// sub-blocks and a shift Fast-dLLM v2 (arXiv 2509.26328).

#include "decode/schedule.h"

#include <algorithm>

namespace buoy {

namespace {

class BlockCausal : public Schedule {
public:
    BlockCausal(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : settings_(settings), params_(params), index_first_(canvas.first() / settings.block_length),
          index_(index_first_) {
        for (int32_t index = index_first_; span(canvas, index).from < canvas.end(); index++) {
            n_masked_blocks_ += canvas.has_masks(span(canvas, index)) ? 1 : 0;
        }
    }

    std::optional<Pass> next(const Canvas & canvas) override {
        if (auto pass = store_blocks(settings_, params_, canvas, index_first_ * settings_.block_length)) {
            return pass;
        }
        while (true) {
            if (in_block_) {
                if (auto pass = next_in_block(canvas)) {
                    return pass;
                }
                in_block_ = false;
                index_++;
            }
            if (canvas.is_done() || !enter_block(canvas)) {
                return {};
            }
            if (settings_.shift && block_.from > 0 && canvas.is_masked(block_.from)) {
                return opening(canvas);
            }
        }
    }

    int32_t n_final(const Canvas & canvas) const override {
        const int32_t first = canvas.first_masked();
        return params_.edit_threshold && in_block_ ? std::min(first, part_from_) : first;
    }

private:
    BlockSpan span(const Canvas & canvas, int32_t index) const {
        const int32_t from = index * settings_.block_length;
        return {from, std::min(from + settings_.block_length, canvas.end())};
    }

    bool is_stored() const { return settings_.cache != DiffusionCache::none; }

    // an edit may take an end token back, so with edits a block is always completed; Stable-DiffCoder's authors always do
    bool is_over(const Canvas & canvas) const {
        return params_.edit_threshold || settings_.exact_blocks ? canvas.is_stopped() : canvas.is_done();
    }

    // Goes to the next block that has masks.
    bool enter_block(const Canvas & canvas) {
        while (span(canvas, index_).from < canvas.wanted() && !canvas.has_masks(span(canvas, index_))) {
            index_++;
        }
        block_ = span(canvas, index_);
        if (block_.from >= canvas.wanted()) {
            return false;
        }
        n_shared_ =
            settings_.exact_blocks ? static_cast<int32_t>(canvas.masked(block_).size()) : settings_.block_length;
        n_steps_ =
            settings_.exact_blocks ? exact_steps() : block_steps(params_, n_masked_blocks_, n_before_++, n_shared_);
        i_          = 0;
        in_block_   = true;
        block_seen_ = false;
        enter_part(block_.from);
        return true;
    }

    void enter_part(int32_t from) {
        part_from_ = from;
        n_post_    = 0;
        in_part_   = false;
        full_      = false;
    }

    // Everything that is not stored for good yet, up to `to`: finished blocks are stored by the first pass of the next one.
    Pass block_pass(const Canvas & canvas, int32_t to) const {
        Pass pass;
        pass.from     = is_stored() ? canvas.n_stored() : 0;
        pass.to       = to;
        pass.kv       = is_stored() ? KvUse::store : KvUse::none;
        pass.block    = index_ - index_first_;
        pass.n_stored = is_stored() ? block_.from : canvas.n_stored();
        return pass;
    }

    // The row that predicts the block's first token lies before it, so it is final already.
    Pass opening(const Canvas & canvas) const {
        Pass pass  = block_pass(canvas, block_.from);
        pass.asked = {block_.from};
        pass.due   = 1;
        pass.span  = block_;
        return pass;
    }

    int32_t part_length() const {
        return settings_.sub_block_length > 0 ? settings_.sub_block_length : settings_.block_length;
    }

    std::optional<Pass> next_in_block(const Canvas & canvas) {
        if (in_part_ && full_ && canvas.n_written() == 0) {
            enter_part(part_from_ + part_length()); // a step that only edits had nothing to edit
        } else if (in_part_) {
            i_++;
        }
        for (; part_from_ < std::min(block_.to, canvas.wanted()) && !is_over(canvas);
             enter_part(part_from_ + part_length())) {
            const BlockSpan part   = {part_from_, std::min(part_from_ + part_length(), block_.to)};
            const int32_t   needed = params_.edit_threshold ? part.to : std::min(part.to, canvas.wanted());
            full_                  = !canvas.has_masks({part.from, needed});
            if (!full_ || (params_.edit_threshold && ++n_post_ <= params_.post_steps)) {
                return next_step(canvas, part);
            }
        }
        return {};
    }

    Pass next_step(const Canvas & canvas, const BlockSpan & part) {
        const bool    first = !in_part_;
        const int32_t due   = steps_due();
        in_part_            = true;
        if (due == 0 && !settings_.open_ended) {
            Pass pause;
            pause.kind     = PassKind::pause;
            pause.block    = index_ - index_first_;
            pause.n_stored = canvas.n_stored();
            return pause;
        }
        // with a cache inside the block, its other parts are those of the part's first pass
        const bool whole = settings_.cache != DiffusionCache::dual || !block_seen_ ||
                           (settings_.shift ? canvas.is_masked(part.from) : first);
        block_seen_ = true;
        Pass pass   = block_pass(canvas, block_.to);
        if (!whole) {
            pass.from     = part.from;
            pass.to       = part.to;
            pass.n_stored = canvas.n_stored();
        }
        pass.span = part;
        pass.due  = due;
        for (int32_t position = part.from; position < part.to; position++) {
            if (canvas.is_masked(position) || (params_.edit_threshold && !canvas.is_given(position))) {
                pass.asked.push_back(position);
            }
        }
        return pass;
    }

    // Stable-DiffCoder divides the steps by the blocks that the answer would have if it began with one.
    int32_t exact_steps() const {
        const int32_t n_blocks = std::max(1, params_.n_predict / settings_.block_length);
        const int32_t share    = params_.steps_per_block > 0 ? params_.steps_per_block : params_.steps / n_blocks;
        return share > 0 ? share : params_.steps > 0 ? 1 : n_shared_;
    }

    // How many positions this step of the block writes.
    int32_t steps_due() const {
        if (params_.edit_threshold) { // edits may take more steps than the schedule has
            return std::max(1, transfer_count(n_shared_, n_steps_, i_));
        }
        return i_ < n_steps_ ? transfer_count(n_shared_, n_steps_, i_) : n_shared_;
    }

    const DecodeSettings & settings_;
    const GenerateParams & params_;
    const int32_t          index_first_; // the block that holds the first mask
    int32_t                n_masked_blocks_ = 0;
    int32_t                n_before_        = 0; // of them

    BlockSpan block_; // that is being written
    int32_t   index_;
    bool      in_block_   = false;
    bool      block_seen_ = false; // a pass has covered it
    int32_t   n_shared_   = 0;     // positions that its steps are divided over
    int32_t   n_steps_    = 0;
    int32_t   i_          = 0; // step of the block

    int32_t part_from_ = 0;
    bool    in_part_   = false; // it has had a step
    bool    full_      = false; // it had no masks before that step
    int32_t n_post_    = 0;     // steps that could only edit
};

} // namespace

std::optional<Pass> store_blocks(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas,
                                 int32_t to) {
    const int32_t batch = std::max(params.n_batch / settings.block_length, 1) * settings.block_length;
    if (settings.cache == DiffusionCache::none || settings.observed || to - canvas.n_stored() <= batch ||
        canvas.is_stopped()) {
        return {};
    }
    Pass pass;
    pass.kind      = PassKind::store;
    pass.kv        = KvUse::store;
    pass.from      = canvas.n_stored();
    pass.to        = pass.from + batch;
    pass.n_stored  = pass.to;
    pass.in_prompt = true;
    pass.progress  = static_cast<float>(pass.to) / static_cast<float>(to);
    return pass;
}

std::unique_ptr<Schedule> make_block_causal(const DecodeSettings & settings, const GenerateParams & params,
                                            const Canvas & canvas) {
    return std::make_unique<BlockCausal>(settings, params, canvas);
}

} // namespace buoy
