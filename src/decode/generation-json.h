#pragma once

#include "buoy/generation-json.h"

#include <nlohmann/json.hpp>

namespace buoy {

// The parts of a machine-readable account of a run: what --json prints and recordings keep.
nlohmann::ordered_json model_json(const ModelInfo & info);
nlohmann::ordered_json settings_json(const ModelInfo & info, const ContextParams & context,
                                     const GenerateParams & params);
// What was asked for, whichever model will do it; null where that is left to the model.
nlohmann::ordered_json asked_json(const GenerateParams & params);
nlohmann::ordered_json asked_json(const ContextParams & context); // of what may change a number; not the threads
nlohmann::ordered_json steps_json(const std::vector<StepReport> & steps, size_t n_prompt);

} // namespace buoy
