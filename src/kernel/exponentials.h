#pragma once

#include <cstdint>

namespace buoy {

// to[i] = exp(factor·(x[i] − offset))
void exponentials(const float * x, float * to, int64_t n, float factor, float offset = 0.0f);

} // namespace buoy
