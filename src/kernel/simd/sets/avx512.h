#pragma once

#include <immintrin.h>

namespace buoy {

namespace {

constexpr int64_t lanes    = 16;
constexpr int64_t mix_rows = 4, mix_vectors = 4; // 16 of 32 registers hold sums

struct Floats {
    __m512 v;
};

inline Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Floats zeros() { return {_mm512_setzero_ps()}; }

inline Floats load_floats(const float * p) { return {_mm512_loadu_ps(p)}; }
inline Floats load_halves(const uint16_t * p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
}
inline Floats load_codes(const int8_t * p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))))};
}
inline float load_half(const void * p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return _cvtsh_ss(bits);
}
inline void store_floats(float * p, Floats x) { _mm512_storeu_ps(p, x.v); }

// The first n lanes; the others are 0, and not stored.
inline __mmask16 lanes_before(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline Floats    load_floats(const float * p, int64_t n) { return {_mm512_maskz_loadu_ps(lanes_before(n), p)}; }
inline Floats    load_halves(const uint16_t * p, int64_t n) {
       return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_before(n), p))};
}
inline Floats load_codes(const int8_t * p, int64_t n) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes_before(n), p)))};
}
inline void store_floats(float * p, Floats x, int64_t n) { _mm512_mask_storeu_ps(p, lanes_before(n), x.v); }

inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }

// a·b + c, c − a·b
inline Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats negated_multiply_add(Floats a, Floats b, Floats c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }

// NaN in b stays.
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }

inline Floats round_to_nearest(Floats x) {
    return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

// x·2^n for whole n, |n| < 127
inline Floats times_power_of_two(Floats x, Floats n) { return {_mm512_scalef_ps(x.v, n.v)}; }

// x, and 0 where y < limit
inline Floats zero_below(Floats x, Floats y, Floats limit) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y.v, limit.v, _CMP_NLT_UQ), x.v)};
}
inline bool any_above(Floats x, Floats limit) { return _mm512_cmp_ps_mask(x.v, limit.v, _CMP_GT_OQ) != 0; }

// The n floats at p, as often as they fit.
template <int64_t n> inline Floats repeat(const float * p) {
    if constexpr (n == 1) {
        return broadcast(*p);
    } else if constexpr (n == 2) {
        double two;
        std::memcpy(&two, p, sizeof(two));
        return {_mm512_castpd_ps(_mm512_set1_pd(two))};
    } else if constexpr (n == 4) {
        return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
    } else if constexpr (n == 8) {
        return {_mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_castps_pd(_mm256_loadu_ps(p))))};
    } else {
        return load_floats(p);
    }
}

// a0 + a1, a2 + a3, … of a, then of b
inline Floats pair_sums(Floats a, Floats b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd  = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {_mm512_add_ps(_mm512_permutex2var_ps(a.v, even, b.v), _mm512_permutex2var_ps(a.v, odd, b.v))};
}

// Lane i + n becomes lane i, round and round.
template <int n> inline Floats rotate(Floats x) {
    const __m512i bits = _mm512_castps_si512(x.v);
    return {_mm512_castsi512_ps(_mm512_alignr_epi32(bits, bits, n))};
}

inline float first_lane(Floats x) { return _mm512_cvtss_f32(x.v); }
inline float lane_sum(Floats x) { return _mm512_reduce_add_ps(x.v); }

// Lane j of row i becomes lane i of row j.
inline void transpose(Floats (&rows)[lanes]) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i]     = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
        a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
    }
    for (int i = 0; i < 16; i += 4) {
        b[i]     = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) { // quarters of a register are left
        const __m512 low   = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88),
                     low2  = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
        const __m512 high  = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
        const __m512 high2 = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
        rows[i].v          = _mm512_shuffle_f32x4(low, high, 0x88);
        rows[i + 8].v      = _mm512_shuffle_f32x4(low, high, 0xdd);
        rows[i + 4].v      = _mm512_shuffle_f32x4(low2, high2, 0x88);
        rows[i + 12].v     = _mm512_shuffle_f32x4(low2, high2, 0xdd);
    }
}

} // namespace

} // namespace buoy
