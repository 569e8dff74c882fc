#pragma once

#include "buoy/engine.h"

#include <cstddef>

namespace buoy {

// What is wrong with a request's taps and selection, in a pass over n_tokens.
void check_taps(const ForwardRequest & request, const ModelInfo & info, size_t n_tokens);

} // namespace buoy
