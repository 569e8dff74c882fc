#pragma once

#include "buoy/model.h"

#include <string>

namespace buoy {

// The type that most of the weights are stored as, by their bytes, as ggml calls it: q4_0, f16.
std::string weight_type(const ModelFile & file);

} // namespace buoy
