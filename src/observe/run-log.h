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

    void add(const StepReport & report, const std::vector<int32_t> & tokens);

    int64_t n_steps() const { return static_cast<int64_t>(changes_.size()); }     // S
    int64_t n_positions() const { return static_cast<int64_t>(current_.size()); } // T

    const std::vector<int32_t> & sequence() const { return current_; }

    std::vector<int32_t> tokens() const;      // [S+1, T], -1 where a position was not yet there
    std::vector<int32_t> unmask_step() const; // [T], -1 for what was given, -2 for what was never written
    std::vector<float>   confidence() const;  // [S, T], NaN where a position was not scored

private:
    std::vector<int32_t>                                  initial_;
    std::vector<int32_t>                                  current_;
    int32_t                                               mask_id_;
    std::vector<std::vector<std::pair<int32_t, int32_t>>> changes_;    // position, id
    std::vector<std::vector<std::pair<int32_t, float>>>   confidence_; // position, probability
};

} // namespace buoy
