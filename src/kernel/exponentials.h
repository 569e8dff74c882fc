#pragma once

#include <cstdint>

namespace buoy {

// to[i] = exp(factor·x[i])
void exponentials(const float * x, float * to, int64_t n, float factor);

} // namespace buoy
