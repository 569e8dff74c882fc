#pragma once

#include "decode/canvas.h"

#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace buoy {

enum class PassKind {
    step,  // a forward pass, after which tokens are written
    pause, // a step of the schedule in which nothing is due, and nothing is computed
    store, // a forward pass that only stores a part of the prompt; no step
};

// What comes next for a sequence.
struct Pass {
    PassKind             kind = PassKind::step;
    int32_t              from = 0; // positions computed
    int32_t              to   = 0;
    KvUse                kv   = KvUse::none;
    std::vector<int32_t> asked;                                       // positions that get a candidate
    int32_t              due   = 0;                                   // how many the schedule has written
    int32_t              limit = std::numeric_limits<int32_t>::max(); // of the best candidates, that may be written
    float                share = 0.0f;                                // of the masks, that a timestep writes
    BlockSpan            span;                                        // what scores are relative to
    int32_t              block     = 0;                               // its index
    int32_t              n_stored  = 0;     // positions from the beginning whose stored K/V are exact afterwards
    bool                 in_prompt = false; // its time is the prompt's
    float                progress  = 0.0f;  // store: share of the prompt that is done

    std::vector<Observer> observers; // of a schedule that reads attention to decide what comes next
};

// The order in which a sequence is written: yields what is to be computed, one pass after the other, each for the canvas as the one
// before left it. What decodes carries the passes out; what predicts counts them.
class Schedule {
public:
    virtual ~Schedule() = default;

    // None: the sequence is finished.
    virtual std::optional<Pass> next(const Canvas & canvas) = 0;
};

using ScheduleMaker = std::unique_ptr<Schedule> (*)(const DecodeSettings & settings, const GenerateParams & params,
                                                    const Canvas & canvas);

// For the canvas as it is before the first pass. Settings and params outlive it.
std::unique_ptr<Schedule> make_schedule(const DecodeSettings & settings, const GenerateParams & params,
                                        const Canvas & canvas);

// One for each kind.
std::unique_ptr<Schedule> make_blocks(const DecodeSettings & settings, const GenerateParams & params,
                                      const Canvas & canvas);
std::unique_ptr<Schedule> make_timesteps(const DecodeSettings & settings, const GenerateParams & params,
                                         const Canvas & canvas);
std::unique_ptr<Schedule> make_block_timesteps(const DecodeSettings & settings, const GenerateParams & params,
                                               const Canvas & canvas);
std::unique_ptr<Schedule> make_block_causal(const DecodeSettings & settings, const GenerateParams & params,
                                            const Canvas & canvas);
std::unique_ptr<Schedule> make_autoregressive(const DecodeSettings & settings, const GenerateParams & params);

// LLaDA's uniform schedule: of n masks in n_steps, step i writes n / n_steps, the first n % n_steps steps one more.
inline int32_t transfer_count(int32_t n, int32_t n_steps, int32_t step) {
    return n / n_steps + (step < n % n_steps ? 1 : 0);
}

// The steps of block `index` of those with masks, n_masked in this one: those that don't divide evenly go to the first blocks, and a
// block has one at least.
int32_t block_steps(const GenerateParams & params, int32_t n_blocks, int32_t index, int32_t n_masked);

// A block that has masks, and its share of the steps.
struct MaskedBlock {
    BlockSpan span;
    int32_t   index    = 0;
    int32_t   n_masked = 0;
    int32_t   n_steps  = 0;
};

// Goes through the blocks that have masks, from the canvas' first one, left to right.
class BlockWalk {
public:
    BlockWalk(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas);

    std::optional<MaskedBlock> next(const Canvas & canvas);

private:
    BlockSpan span(const Canvas & canvas, int32_t index) const;

    const GenerateParams & params_;
    int32_t                block_length_;
    int32_t                n_blocks_;
    int32_t                n_masked_blocks_ = 0; // blocks of given text alone take no steps
    int32_t                n_before_        = 0; // of them
    int32_t                index_           = 0;
};

// Counts the passes of a block that has a store: which of them compute everything.
class FullPasses {
public:
    explicit FullPasses(int32_t refresh) : refresh_(refresh) {}

    // Whether the pass that comes now is one: the first, and then one after every so many where that is asked for.
    bool next() {
        const bool full = since_ == 0 || (refresh_ > 0 && since_ >= refresh_);
        since_          = full ? 1 : since_ + 1;
        return full;
    }

private:
    int32_t refresh_;
    int32_t since_ = 0;
};

} // namespace buoy
