#pragma once

#include "buoy/engine.h"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace buoy {

// What one denoising step (or one autoregressive token) wrote.
struct StepReport {
    int32_t step  = 0;
    int32_t block = 0;
    std::vector<std::pair<int32_t, int32_t>> committed; // position, id; sorted by position
};

// Called after every step with the sequence as it now is; returning false ends the generation cleanly.
using StepCallback = std::function<bool(const StepReport & step, const std::vector<int32_t> & tokens)>;

struct GenerateParams {
    int32_t      n_predict    = 128; // tokens to generate
    int32_t      steps        = 0;   // denoising steps in all; 0: one token a step
    int32_t      block_length = 0;   // semi-autoregressive blocks; 0: the model's, else n_predict
    std::vector<int32_t> end_ids;    // generation ends where one of these is final
    StepCallback on_step;
};

struct Generation {
    std::vector<int32_t>    prompt;
    std::vector<int32_t>    tokens; // the new ones, trimmed before the end token
    std::vector<StepReport> steps;
    int64_t                 n_forward = 0;
    bool                    stopped   = false; // by the callback
};

// Diffusion or autoregression, as the model is.
Generation generate(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params);

} // namespace buoy
