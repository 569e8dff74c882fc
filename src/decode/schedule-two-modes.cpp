// A model that reads causally and writes blocks both ways behind what it has read (Nemotron-Labs-Diffusion): block diffusion, and
// speculation, where the one drafts a block and the other verifies it.

#include "decode/schedule.h"

#include <algorithm>

namespace buoy {

namespace {

// What both have in common: the prompt is read, then there are blocks behind it.
class TwoModes : public Schedule {
public:
    TwoModes(const DecodeSettings & settings, const GenerateParams & params) : settings_(settings), params_(params) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        if (canvas.is_stopped()) {
            return {};
        }
        if (!is_read_) {
            return read_prompt(canvas);
        }
        return next_behind(canvas);
    }

protected:
    virtual std::optional<Pass> next_behind(const Canvas & canvas) = 0;

    // Positions [from, to) for good; a causal pass also writes what follows them.
    Pass reading(const Canvas & canvas, int32_t from, int32_t to, bool writes) const {
        Pass pass;
        pass.from      = from;
        pass.to        = to;
        pass.kv        = KvUse::store;
        pass.attention = params_.causal_context ? AttentionKind::causal : AttentionKind::full;
        pass.shift     = true;
        pass.n_stored  = to;
        pass.block     = block_index_;
        if (writes && params_.causal_context && to < canvas.end()) {
            pass.asked = {to};
            pass.due   = 1;
            pass.span  = {to, to + 1};
        }
        return pass;
    }

    // The masks of a block, seen from both sides. Its keys and values are replaced by every pass until one reads it.
    Pass denoising(const Canvas & canvas, const BlockSpan & block, int32_t due) const {
        Pass pass;
        pass.from      = block.from;
        pass.to        = block.to;
        pass.kv        = KvUse::store;
        pass.attention = AttentionKind::full;
        pass.shift     = false;
        pass.n_stored  = block.from;
        pass.asked     = canvas.masked(block);
        pass.due       = due;
        pass.span      = block;
        pass.block     = block_index_;
        return pass;
    }

    BlockSpan block_at(const Canvas & canvas, int32_t from) const {
        return {from, std::min(from + settings_.block_length, canvas.end())};
    }

    const DecodeSettings & settings_;
    const GenerateParams & params_;
    int32_t                block_index_ = 0;

private:
    Pass read_prompt(const Canvas & canvas) {
        const int32_t from = canvas.n_stored(), to = canvas.first();
        const bool    whole = settings_.observed || !params_.causal_context || to - from <= params_.n_batch;
        Pass          pass  = reading(canvas, from, whole ? to : from + params_.n_batch, whole);
        pass.in_prompt      = true;
        if (!whole) {
            pass.kind     = PassKind::store;
            pass.progress = static_cast<float>(pass.to) / static_cast<float>(to);
        }
        is_read_ = whole;
        return pass;
    }

    bool is_read_ = false;
};

class BlocksBehind : public TwoModes {
public:
    BlocksBehind(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : TwoModes(settings, params), block_(block_at(canvas, canvas.first())) {}

private:
    std::optional<Pass> next_behind(const Canvas & canvas) override {
        if (is_stored_) { // by the pass before this
            if (canvas.ended() || block_.to >= canvas.wanted()) {
                return {};
            }
            enter(block_at(canvas, block_.to));
        }
        if (i_ < 0) {
            i_ = 0;
            if (auto pass = end_thinking(canvas)) {
                return pass;
            }
        }
        const auto n_masked = static_cast<int32_t>(canvas.masked(block_).size());
        if (n_masked == 0 || canvas.ended()) {
            is_stored_      = true;
            const bool more = !canvas.ended() && block_.to < canvas.wanted();
            return reading(canvas, block_.from, block_.to, more);
        }
        n_shared_         = i_ == 0 ? n_masked : n_shared_;
        const int32_t n   = params_.steps_per_block > 0 ? params_.steps_per_block : settings_.block_length;
        const int32_t due = i_ < n ? transfer_count(n_shared_, n, i_) : n_masked;
        i_++;
        return denoising(canvas, block_, due);
    }

    void enter(const BlockSpan & block) {
        block_     = block;
        i_         = -1;
        is_stored_ = false;
        block_index_++;
    }

    // The token that ends thinking, where the budget does, before the block is denoised.
    std::optional<Pass> end_thinking(const Canvas & canvas) const {
        if (!params_.thinking_budget || canvas.has_token(params_.end_think_id)) {
            return {};
        }
        const int32_t at = std::max(block_.from, canvas.first() + *params_.thinking_budget);
        if (at >= block_.to) {
            return {};
        }
        Pass pass;
        pass.kind     = PassKind::pause;
        pass.block    = block_index_;
        pass.n_stored = block_.from;
        pass.also     = {{at, params_.end_think_id}};
        return pass;
    }

    BlockSpan block_;
    int32_t   i_         = -1; // step of the block; -1: it is new
    int32_t   n_shared_  = 0;  // masks that its steps are divided over
    bool      is_stored_ = false;
};

// Drafts a block by diffusion, then keeps what the autoregressive model would have written: those tokens, for as long as the draft has
// the same, and one more.
class Speculation : public TwoModes {
public:
    Speculation(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : TwoModes(settings, params), block_(block_at(canvas, canvas.first())) {}

    std::optional<Writes> decide(const Canvas & canvas, std::span<const Candidate> candidates,
                                 const ForwardResult &) override {
        if (!verifies_) {
            return {};
        }
        Writes        writes;
        const int32_t n = block_.to - block_.from; // candidate i is for position from + i + 1
        n_kept_         = 1;
        while (n_kept_ < n && n_kept_ < static_cast<int32_t>(candidates.size()) &&
               candidates[static_cast<size_t>(n_kept_ - 1)].id == canvas.token(block_.from + n_kept_)) {
            n_kept_++;
        }
        for (int32_t i = 0; i < n && block_.from + i + 1 < canvas.end(); i++) {
            const auto    at = static_cast<size_t>(i);
            const int32_t id = i >= n_kept_             ? canvas.mask_id()
                               : at < candidates.size() ? candidates[at].id
                                                        : canvas.any_id();
            if (id != canvas.token(block_.from + i + 1)) {
                writes.emplace_back(block_.from + i + 1, id);
            }
        }
        return writes;
    }

private:
    std::optional<Pass> next_behind(const Canvas & canvas) override {
        if (verifies_) {
            verifies_ = false;
            drafts_   = false;
            block_    = block_at(canvas, block_.from + n_kept_);
            block_index_++;
        }
        if (block_.from + 1 >= canvas.wanted() || block_.from >= canvas.end() || canvas.is_masked(block_.from) ||
            (!drafts_ && canvas.ended())) { // an end token in a draft is not the end
            return {};
        }
        drafts_             = true;
        const auto n_masked = static_cast<int32_t>(canvas.masked(block_).size());
        if (n_masked > 0) {
            return denoising(canvas, block_, n_masked);
        }
        verifies_ = true;
        Pass pass = reading(canvas, block_.from, block_.to, false);
        pass.span = {block_.from + 1, std::min(block_.to + 1, canvas.end())};
        pass.due  = 1;
        for (int32_t position = pass.span.from; position < pass.span.to; position++) {
            pass.asked.push_back(position);
        }
        pass.n_stored = block_.from + 1; // more, where the draft turns out to be right
        return pass;
    }

    BlockSpan block_;
    bool      drafts_   = false; // the block has tokens that nobody verified
    bool      verifies_ = false; // the last pass did
    int32_t   n_kept_   = 0;     // tokens that it wrote
};

} // namespace

std::unique_ptr<Schedule> make_two_modes(const DecodeSettings & settings, const GenerateParams & params,
                                         const Canvas & canvas) {
    if (params.speculate) {
        return std::make_unique<Speculation>(settings, params, canvas);
    }
    return std::make_unique<BlocksBehind>(settings, params, canvas);
}

} // namespace buoy
