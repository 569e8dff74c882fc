#pragma once

#include "buoy/generate.h"

#include <string>

namespace buoy {

// A generation with what it was made with.
struct GenerationAccount {
    const ModelInfo &      model;
    const ContextParams &  context;
    const GenerateParams & params; // n_predict resolved (answer_length)
    const Generation &     generation;
    std::string            text;
    double                 load_ms = 0.0;
};

// One JSON object on one line, invalid UTF-8 replaced; docs/cli.md lists its fields. Fields may be added, never renamed.
std::string generation_json(const GenerationAccount & account);

// The tokens that decode_ms went into, per second: an autoregressive run's first token belongs to its prompt.
double tokens_per_second(const Generation & generation);

} // namespace buoy
