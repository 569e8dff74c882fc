#pragma once

#include "buoy/generate.h"

namespace buoy {

// LLaDA's low-confidence remasking at temperature 0 (arXiv 2502.09992): blocks from left to right, in each step the most
// confident of the block's masked positions are written.
Generation generate_diffusion(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params);

// Argmax continuation with an exact K/V store.
Generation generate_autoregressive(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params);

} // namespace buoy
