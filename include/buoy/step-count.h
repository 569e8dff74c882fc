#pragma once

#include "buoy/generate.h"

namespace buoy {

// The most steps that generate() can take for this prompt; fixed schedules without an end token take exactly as many, but for
// those over timesteps within blocks. params.n_predict is resolved (answer_length).
int64_t step_count_max(const ModelInfo & info, const std::vector<int32_t> & prompt, const GenerateParams & params);

// Positions that the model of this file was trained for, known before it is loaded; 0 where the file does not say.
int32_t trained_length(const ModelFile & file);

// Positions behind prompt and answer that a run also writes if the context has room for them, as the rest of a block.
int32_t spare_length(const ModelFile & file, const GenerateParams & params);

} // namespace buoy
