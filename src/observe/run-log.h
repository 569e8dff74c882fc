#pragma once

#include "buoy/generate.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace buoy {

// The sequence of a run step by step, kept as what changed.
class RunLog {
public:
    explicit RunLog(std::vector<int32_t> initial, int32_t mask_id);

    // Before a step: what a canvas that is new begins with.
    void begin_step(const std::vector<int32_t> & positions, const std::vector<int32_t> & tokens);
    void add(const StepReport & report, const std::vector<int32_t> & tokens);

    int64_t n_steps() const { return static_cast<int64_t>(changes_.size()); }     // S
    int64_t n_positions() const { return static_cast<int64_t>(current_.size()); } // T

    const std::vector<int32_t> & sequence() const { return current_; }

    std::vector<int32_t>         tokens() const; // [S+1, T], -1 where a position was not yet there
    const std::vector<int32_t> & unmask_step() const { return unmask_step_; } // [T], -1: given, -2: masked
    std::vector<float>           confidence() const; // [S, T], NaN where a position was not scored

private:
    void note_unmasked(const StepReport & report, const std::vector<int32_t> & tokens);

    std::vector<int32_t>                                  initial_;
    std::vector<int32_t>                                  current_;
    std::vector<int32_t>                                  unmask_step_;
    int32_t                                               mask_id_;
    std::vector<std::vector<std::pair<int32_t, int32_t>>> changes_;    // position, id
    std::vector<std::vector<std::pair<int32_t, float>>>   confidence_; // position, probability
};

} // namespace buoy
