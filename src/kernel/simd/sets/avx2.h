#pragma once

#include <immintrin.h>

namespace buoy {

namespace {

constexpr int64_t lanes    = 8;
constexpr int64_t mix_rows = 4, mix_vectors = 2; // 8 of 16 registers hold sums

struct Floats {
    __m256 v;
};

inline Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Floats zeros() { return {_mm256_setzero_ps()}; }

inline Floats load_floats(const float * p) { return {_mm256_loadu_ps(p)}; }
inline Floats load_halves(const uint16_t * p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)))};
}
inline Floats load_codes(const int8_t * p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))))};
}
inline float load_half(const void * p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return _cvtsh_ss(bits);
}
inline void store_floats(float * p, Floats x) { _mm256_storeu_ps(p, x.v); }

// The first n lanes; the others are 0, and not stored.
inline Floats load_floats(const float * p, int64_t n) { return load_floats(Padded<float, lanes>(p, n).values); }
inline Floats load_halves(const uint16_t * p, int64_t n) { return load_halves(Padded<uint16_t, lanes>(p, n).values); }
inline Floats load_codes(const int8_t * p, int64_t n) { return load_codes(Padded<int8_t, lanes>(p, n).values); }
inline void   store_floats(float * p, Floats x, int64_t n) {
      alignas(32) float values[lanes];
      store_floats(values, x);
      std::memcpy(p, values, sizeof(float) * static_cast<size_t>(n));
}

inline Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }

// a·b + c, c − a·b
inline Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats negated_multiply_add(Floats a, Floats b, Floats c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }

// NaN in b stays.
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }

inline Floats round_to_nearest(Floats x) {
    return {_mm256_round_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

// x·2^n for whole n, |n| < 127
inline Floats times_power_of_two(Floats x, Floats n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return {_mm256_mul_ps(x.v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)))};
}

// x, and 0 where y < limit
inline Floats zero_below(Floats x, Floats y, Floats limit) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(y.v, limit.v, _CMP_LT_OQ), x.v)};
}
inline bool any_above(Floats x, Floats limit) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x.v, limit.v, _CMP_GT_OQ)) != 0;
}

// The n floats at p, as often as they fit.
template <int64_t n> inline Floats repeat(const float * p) {
    if constexpr (n == 1) {
        return broadcast(*p);
    } else if constexpr (n == 2) {
        double two;
        std::memcpy(&two, p, sizeof(two));
        return {_mm256_castpd_ps(_mm256_set1_pd(two))};
    } else if constexpr (n == 4) {
        return {_mm256_broadcast_ps(reinterpret_cast<const __m128 *>(p))};
    } else {
        return load_floats(p);
    }
}

// a0 + a1, a2 + a3, … of a, then of b
inline Floats pair_sums(Floats a, Floats b) {
    const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(a.v, b.v)); // half by half
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xd8))};
}

// Lane i + n becomes lane i, round and round.
template <int n> inline Floats rotate(Floats x) {
    const __m256i from = _mm256_setr_epi32(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7); // modulo 8
    return {_mm256_permutevar8x32_ps(x.v, from)};
}

inline float first_lane(Floats x) { return _mm256_cvtss_f32(x.v); }
inline float lane_sum(Floats x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
    s        = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// Lane j of row i becomes lane i of row j.
inline void transpose(Floats (&rows)[lanes]) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i]     = _mm256_unpacklo_ps(rows[i].v, rows[i + 1].v);
        a[i + 1] = _mm256_unpackhi_ps(rows[i].v, rows[i + 1].v);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i]     = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        rows[i].v     = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        rows[i + 4].v = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

} // namespace

} // namespace buoy
