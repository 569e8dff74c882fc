#pragma once

#include <cstdint>
#include <string>

namespace buoy {

// The most that this machine's processor does with so many threads: multiply-adds in registers, and bytes read from memory, in 10^9
// a second. 0: there are no such instructions, or none that we know of.
struct MachinePeak {
    int32_t     n_threads = 0;
    std::string instructions; // of which set: AVX2, AVX-VNNI, AVX-512 VNNI, NEON
    double      f32    = 0.0;
    double      bf16   = 0.0; // AVX-512's dot products
    double      int8   = 0.0; // dot products of bytes
    double      memory = 0.0;
};

// Takes one to two seconds. 0: one thread per core.
MachinePeak measure_peak(int32_t n_threads);

} // namespace buoy
