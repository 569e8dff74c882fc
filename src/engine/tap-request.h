#pragma once

#include "buoy/context.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace buoy {

// What is wrong with a request's taps and selection, in a pass over n_tokens.
void check_taps(const ForwardRequest & request, const ModelInfo & info, size_t n_tokens);

// The indices chosen, or all below n where none is.
std::vector<int32_t> all_if_empty(std::vector<int32_t> chosen, int64_t n);

} // namespace buoy
