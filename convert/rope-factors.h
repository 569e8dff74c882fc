#pragma once

#include "tensor-plan.h"

#include <optional>

namespace buoy {

// Llama 3's RoPE scaling as a tensor of one divisor per frequency; nothing for other kinds.
std::optional<PlannedTensor> plan_rope_factors(const HfParams & params);

} // namespace buoy
