#pragma once

#include "kernel/kernels.h"

#include <immintrin.h>

#include <cstring>

// Products of quantised weights and activations packed to 8 bits. Only this folder is compiled for AVX2, so nothing here may
// define what other code could share at link time: internal linkage throughout.

namespace buoy {

namespace {

// Columns 4s … 4s + 3 of the 8 rows lie in one register, so that vpmaddubsw makes two 16-bit sums for each row. Eight of them
// (32 columns) add up without overflow: arithmetic is modulo 2^16, |w| ≤ 16 and |x| ≤ 127 bound the result. Activations are
// unsigned there (x + 128); `start` takes 128·Σw off again.
struct CodeBlock {
    int8_t  w[8][32];
    int16_t start[16];
};

// The ways a type's 32 columns are scaled.
struct ScaledBlock { // w = d·code
    CodeBlock codes;
    float     d[8];
};
struct ShiftedBlock { // w = d·code + m
    CodeBlock codes;
    float     d[8], m[8];
};
struct HalvesBlock { // 16 columns a scale, for codes of 6 bits
    int8_t  w[8][32];
    int16_t start[2][16];
    float   d[2][8];
};
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
struct WideBlock { // w = d·code, for codes of 8 bits: sums of 32 bits hold their products
    int8_t  w[8][32];
    int32_t start[8];
    float   d[8];
};
#else
struct WideBlock { // w = d·(16·high + low), for codes of 8 bits
    CodeBlock high, low;
    float     d[8];
};
#endif

inline __m256i load(const void * p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }

inline void store(void * p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i *>(p), v); }

inline __m256i spread(const uint8_t * four) {
    int32_t v;
    std::memcpy(&v, four, sizeof(v));
    return _mm256_set1_epi32(v);
}

// GCC reorders integer sums into trees that need more registers than there are; a sum that passed here is left alone.
inline void settle(__m256i & v) { asm("" : "+x"(v)); }

} // namespace

} // namespace buoy
