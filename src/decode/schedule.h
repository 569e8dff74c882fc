#pragma once

#include <cstdint>

namespace buoy {

// LLaDA's uniform schedule: of n masks in n_steps, step i writes n / n_steps, the first n % n_steps steps one more.
inline int32_t transfer_count(int32_t n, int32_t n_steps, int32_t step) {
    return n / n_steps + (step < n % n_steps ? 1 : 0);
}

} // namespace buoy
