#pragma once

#include "buoy/generate.h"

#include <nlohmann/json.hpp>

namespace buoy {

// The parts of a machine-readable account of a run: what --json prints and recordings keep.
nlohmann::ordered_json model_json(const ModelInfo & info);
nlohmann::ordered_json settings_json(const ModelInfo & info, const ContextParams & context,
                                     const GenerateParams & params);
// What was asked for, whichever model will do it; null where that is left to the model.
nlohmann::ordered_json asked_json(const GenerateParams & params);
nlohmann::ordered_json asked_json(const ContextParams & context); // of what may change a number; not the threads
nlohmann::ordered_json steps_json(const std::vector<StepReport> & steps);

// The tokens that decode_ms went into, per second: an autoregressive run's first token belongs to its prompt.
double tokens_per_second(const Generation & generation);

// Text on one line, invalid UTF-8 replaced.
std::string json_line(const nlohmann::ordered_json & json);

} // namespace buoy
