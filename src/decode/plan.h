#pragma once

#include "buoy/generate.h"

namespace buoy {

// The rows that the pass of a step computes, and the keys they see. A step in which nothing is due has no pass: no rows.
struct PlannedStep {
    int32_t row_first = 0;
    int32_t n_rows    = 0;
    int32_t n_keys    = 0;
};

// The steps that generate() takes for a prompt, found without a model. A run that an end token ends takes the first of them.
// Where the model decides how many steps a block takes (open_ended), these are the most, and a run takes some of them in order.
struct StepPlan {
    std::vector<PlannedStep> steps;
    bool                     open_ended  = false;
    bool                     adaptive    = false; // a cache chooses the rows of each layer; these are all there are
    int32_t                  n_initial   = 0;     // of the sequence before the first step
    int32_t                  n_positions = 0; // of the sequence at its end: a block-causal model's last block is whole
};

// params.n_predict is resolved (answer_length). Somebody who looks on is assumed: nothing is stored before the first step.
StepPlan plan_steps(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params);

} // namespace buoy
