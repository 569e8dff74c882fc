#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/bytes.h"
#include "kernel/simd/set.h"

// Loops that do nothing but multiply and add in registers: the most that the instruction set can do.

namespace buoy {

namespace {

constexpr int peak_sums = 12; // enough to wait for none of them, few enough for 16 registers

float peak_floats(int64_t n) {
    Floats sums[peak_sums];
    for (Floats & sum : sums) {
        sum = zeros();
    }
    const Floats half = broadcast(0.5f), one = broadcast(1.0f);
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (Floats & sum : sums) {
            sum = multiply_add(sum, half, one);
        }
    }
    alignas(64) float out[lanes];
    Floats            all = zeros();
    for (const Floats & sum : sums) {
        all = all + sum;
    }
    store_floats(out, all);
    return out[0];
}

#if defined(__AVX512VNNI__) // twice as wide as what our products use

constexpr int64_t peak_bytes_each = 64;
using PeakSums                    = __m512i;

inline PeakSums peak_start() { return _mm512_setzero_si512(); }
inline PeakSums peak_step(PeakSums sums) { return _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), _mm512_set1_epi8(1)); }
inline void     peak_store(int32_t * to, PeakSums sums) { _mm512_store_si512(to, sums); }

#else

constexpr int64_t peak_bytes_each = 32;
using PeakSums                    = Sums;

inline PeakSums peak_start() { return no_sums(); }
inline PeakSums peak_step(PeakSums sums) {
#if defined(__AVX2__) && !defined(__AVXVNNI__)
    return add_products(sums, sums, all_bytes(1)); // or the product would be made only once
#else
    return add_products(sums, all_bytes(1), all_bytes(1));
#endif
}
inline void peak_store(int32_t * to, PeakSums sums) { store_bytes(to, sums); }

#endif

float peak_bytes(int64_t n) {
    PeakSums sums[peak_sums];
    for (PeakSums & sum : sums) {
        sum = peak_start();
    }
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (PeakSums & sum : sums) {
            sum = peak_step(sum);
        }
    }
    int32_t all = 0;
    for (const PeakSums & sum : sums) {
        alignas(64) int32_t out[peak_bytes_each / sizeof(int32_t)];
        peak_store(out, sum);
        all ^= out[0];
    }
    return static_cast<float>(all);
}

} // namespace

} // namespace buoy
