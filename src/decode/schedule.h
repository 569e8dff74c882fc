#pragma once

#include "decode/canvas.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace buoy {

using Writes = std::vector<std::pair<int32_t, int32_t>>; // position and token

enum class PassKind {
    step,  // a forward pass, after which tokens are written
    pause, // a step of the schedule in which nothing is due, and nothing is computed
    store, // a forward pass that only stores a part of the text; no step
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

    std::vector<int32_t>          positions; // computed, ascending, where it is not from … to
    std::optional<PartialRefresh> refresh;   // (ForwardRequest)
    std::optional<DriftReset>     reset;
    BlockSpan                     shadow;      // positions that have a shadow, if any (ForwardRequest)
    std::vector<int32_t>          shadow_rows; // those of them whose shadow's row is wanted behind what is asked

    std::vector<Observer> observers; // of a schedule that reads attention to decide what comes next

    // of a model whose passes differ
    std::optional<AttentionKind> attention; // instead of the model's own
    std::optional<bool>          shift;     // whether the row before a position predicts it, instead of the model's own

    // of a model that writes canvases (ForwardRequest)
    std::optional<SelfCondition> condition;
    std::optional<RowDraw>       draw;
    bool                         keep_logits = false;

    Writes also; // written besides, whatever the rows say
};

class Rule;
struct RuleInput;

// The order in which a sequence is written: yields what is to be computed, one pass after the other, each for the canvas as the one
// before left it. What decodes carries the passes out; what predicts counts them.
class Schedule {
public:
    virtual ~Schedule() = default;

    // A schedule may choose what is written itself; null: it doesn't.
    virtual Rule * rule() { return nullptr; }

    // What came out of a pass, before anything is chosen from it.
    virtual void see(const RuleInput & /*in*/) {}

    // After a step's tokens are written: it may change the length of the canvas, and tell about the step.
    virtual void end_step(Canvas & /*canvas*/, StepReport & /*report*/) {}

    // None: the sequence is finished.
    virtual std::optional<Pass> next(const Canvas & canvas) = 0;

    // What the rows of the last pass write, where a schedule has rules of its own; none: what the algorithm chooses of the candidates.
    // A token may be written over another one, or be the mask. Without candidates: what it writes at least, for who counts steps.
    virtual std::optional<Writes> decide(const Canvas & /*canvas*/, std::span<const Candidate> /*candidates*/,
                                         const ForwardResult & /*rows*/) {
        return {};
    }

    // No pass follows: what is open is left as well as can be.
    virtual void close(Canvas & /*canvas*/) {}

    // Whether the step that was decided last is the last about its positions.
    virtual bool is_settled() const { return false; }

    // Positions from the beginning that no later pass changes. A schedule that may replace what it wrote says which it is done with.
    virtual int32_t n_final(const Canvas & canvas) const { return canvas.first_masked(); }
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
std::unique_ptr<Schedule> make_serving(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas);
std::unique_ptr<Schedule> make_two_modes(const DecodeSettings & settings, const GenerateParams & params,
                                         const Canvas & canvas);
std::unique_ptr<Schedule> make_window(const DecodeSettings & settings, const GenerateParams & params,
                                      const Canvas & canvas);
std::unique_ptr<Schedule> make_growing(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas);
std::unique_ptr<Schedule> make_canvases(const DecodeSettings & settings, const GenerateParams & params);
std::unique_ptr<Schedule> make_autoregressive(const DecodeSettings & settings, const GenerateParams & params);

// Stores a long prompt of a block-causal model up to `to` in batches of whole blocks. The last batch is left to the first step, which
// then needs no pass more; who observes gets everything there.
std::optional<Pass> store_blocks(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas,
                                 int32_t to);

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
