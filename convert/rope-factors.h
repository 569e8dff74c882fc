#pragma once

#include "tensor-plan.h"

#include <optional>

namespace buoy {

// One divisor per frequency, where that is how RoPE is scaled (Llama 3's), or how some of a global layer's pairs are left alone
// (Gemma 4's); nothing for other kinds.
std::optional<PlannedTensor> plan_rope_factors(const HfParams & params);

} // namespace buoy
