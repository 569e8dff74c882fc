#pragma once

#include <cstdint>
#include <cstring>

// The vector of floats that this translation unit's instruction set has, and what the loops do with it. A set defines Floats,
// how many floats one holds (lanes), and the rows and vectors of columns whose sums attention keeps in registers (mix_rows,
// mix_vectors).

namespace buoy {

namespace {

// The first n of some values, then zeros: for sets whose loads know no mask.
template <class T, int64_t size> struct Padded {
    alignas(64) T values[size] = {};
    Padded(const T * from, int64_t n) { std::memcpy(values, from, sizeof(T) * static_cast<size_t>(n)); }
};

} // namespace

} // namespace buoy

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__)
#include "kernel/simd/sets/avx512.h"
#elif defined(__AVX2__)
#include "kernel/simd/sets/avx2.h"
#elif defined(__aarch64__)
#include "kernel/simd/sets/neon.h"
#endif
