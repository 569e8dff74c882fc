#pragma once

#include <arm_neon.h>

namespace buoy {

namespace {

constexpr int64_t lanes    = 8;
constexpr int64_t mix_rows = 4, mix_vectors = 2; // 16 of 32 registers of four lanes hold sums

struct Floats {
    float32x4_t low, high;
};

inline Floats broadcast(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Floats zeros() { return broadcast(0.0f); }

inline Floats load_floats(const float * p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline Floats load_halves(const uint16_t * p) {
    const float16x8_t both = vreinterpretq_f16_u16(vld1q_u16(p));
    return {vcvt_f32_f16(vget_low_f16(both)), vcvt_high_f32_f16(both)};
}
inline Floats load_codes(const int8_t * p) {
    const int16x8_t both = vmovl_s8(vld1_s8(p));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(both))), vcvtq_f32_s32(vmovl_high_s16(both))};
}
inline float load_half(const void * p) {
    __fp16 half;
    std::memcpy(&half, p, sizeof(half));
    return half;
}
inline void store_floats(float * p, Floats x) {
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
}

// The first n lanes; the others are 0, and not stored.
inline Floats load_floats(const float * p, int64_t n) { return load_floats(Padded<float, lanes>(p, n).values); }
inline Floats load_halves(const uint16_t * p, int64_t n) { return load_halves(Padded<uint16_t, lanes>(p, n).values); }
inline Floats load_codes(const int8_t * p, int64_t n) { return load_codes(Padded<int8_t, lanes>(p, n).values); }
inline void   store_floats(float * p, Floats x, int64_t n) {
      float values[lanes];
      store_floats(values, x);
      std::memcpy(p, values, sizeof(float) * static_cast<size_t>(n));
}

inline Floats operator+(Floats a, Floats b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
inline Floats operator-(Floats a, Floats b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
inline Floats operator*(Floats a, Floats b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
inline Floats operator/(Floats a, Floats b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }

// a·b + c, c − a·b
inline Floats multiply_add(Floats a, Floats b, Floats c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
inline Floats negated_multiply_add(Floats a, Floats b, Floats c) {
    return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
}

// NaN stays.
inline Floats max(Floats a, Floats b) { return {vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)}; }
inline Floats min(Floats a, Floats b) { return {vminq_f32(a.low, b.low), vminq_f32(a.high, b.high)}; }

inline Floats round_to_nearest(Floats x) { return {vrndnq_f32(x.low), vrndnq_f32(x.high)}; }

// x·2^n for whole n, |n| < 127
inline Floats times_power_of_two(Floats x, Floats n) {
    const auto power = [](float32x4_t v) {
        return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(127)), 23));
    };
    return x * Floats{power(n.low), power(n.high)};
}

// x, and 0 where y < limit
inline Floats zero_below(Floats x, Floats y, Floats limit) {
    const auto kept = [](float32x4_t v, float32x4_t at, float32x4_t least) {
        return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(at, least)));
    };
    return {kept(x.low, y.low, limit.low), kept(x.high, y.high, limit.high)};
}
inline bool any_above(Floats x, Floats limit) {
    return vmaxvq_u32(vorrq_u32(vcgtq_f32(x.low, limit.low), vcgtq_f32(x.high, limit.high))) != 0;
}

// The n floats at p, as often as they fit.
template <int64_t n> inline Floats repeat(const float * p) {
    if constexpr (n == 1) {
        return broadcast(*p);
    } else if constexpr (n == 2) {
        const float32x2_t two = vld1_f32(p);
        return {vcombine_f32(two, two), vcombine_f32(two, two)};
    } else if constexpr (n == 4) {
        return {vld1q_f32(p), vld1q_f32(p)};
    } else {
        return load_floats(p);
    }
}

// a0 + a1, a2 + a3, … of a, then of b
inline Floats pair_sums(Floats a, Floats b) { return {vpaddq_f32(a.low, a.high), vpaddq_f32(b.low, b.high)}; }

// Lane i + n becomes lane i, round and round.
template <int n> inline Floats rotate(Floats x) {
    if constexpr (n == 4) {
        return {x.high, x.low};
    } else {
        return {vextq_f32(x.low, x.high, n), vextq_f32(x.high, x.low, n)};
    }
}

inline float first_lane(Floats x) { return vgetq_lane_f32(x.low, 0); }
inline float lane_sum(Floats x) {
    const float32x4_t four = vaddq_f32(x.low, x.high);
    const float32x2_t two  = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// Lane j of row i becomes lane i of row j.
inline void transpose4(float32x4_t & a, float32x4_t & b, float32x4_t & c, float32x4_t & d) {
    const auto        pairs = [](float32x4_t v) { return vreinterpretq_f64_f32(v); };
    const auto        back  = [](float64x2_t v) { return vreinterpretq_f32_f64(v); };
    const float64x2_t ab = pairs(vtrn1q_f32(a, b)), ab_odd = pairs(vtrn2q_f32(a, b));
    const float64x2_t cd = pairs(vtrn1q_f32(c, d)), cd_odd = pairs(vtrn2q_f32(c, d));
    a = back(vtrn1q_f64(ab, cd));
    b = back(vtrn1q_f64(ab_odd, cd_odd));
    c = back(vtrn2q_f64(ab, cd));
    d = back(vtrn2q_f64(ab_odd, cd_odd));
}
inline void transpose(Floats (&rows)[lanes]) {
    transpose4(rows[0].low, rows[1].low, rows[2].low, rows[3].low);
    transpose4(rows[0].high, rows[1].high, rows[2].high, rows[3].high);
    transpose4(rows[4].low, rows[5].low, rows[6].low, rows[7].low);
    transpose4(rows[4].high, rows[5].high, rows[6].high, rows[7].high);
    for (int i = 0; i < 4; i++) {
        const float32x4_t right = rows[i].high;
        rows[i].high            = rows[i + 4].low;
        rows[i + 4].low         = right;
    }
}

} // namespace

} // namespace buoy
