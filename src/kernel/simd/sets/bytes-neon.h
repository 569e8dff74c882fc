#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// What products of quantised weights need of a 64-bit ARM processor with dot products of bytes: pairs of registers, 32 bytes, of which
// each dword belongs to one of eight rows of weights.

namespace buoy {

namespace {

struct Bytes {
    uint8x16_t low, high;
};
using Ints = Bytes; // eight
struct Eight {      // floats
    float32x4_t low, high;
};

// f of the lower and upper halves of registers that hold dwords.
template <class F, class... V> inline Ints each_ints(const F & f, V... v) {
    const auto as = [](uint8x16_t bytes) { return vreinterpretq_s32_u8(bytes); };
    return {vreinterpretq_u8_s32(f(as(v.low)...)), vreinterpretq_u8_s32(f(as(v.high)...))};
}

inline Bytes load_bytes(const void * p) {
    const auto * from = static_cast<const uint8_t *>(p);
    return {vld1q_u8(from), vld1q_u8(from + 16)};
}
inline void store_bytes(void * p, Bytes v) {
    auto * to = static_cast<uint8_t *>(p);
    vst1q_u8(to, v.low);
    vst1q_u8(to + 16, v.high);
}

inline Bytes all_bytes(int v) {
    const uint8x16_t all = vdupq_n_u8(static_cast<uint8_t>(v));
    return {all, all};
}
inline Bytes no_bytes() { return all_bytes(0); }
inline Bytes bits_and(Bytes a, Bytes b) { return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)}; }
inline Bytes bits_or(Bytes a, Bytes b) { return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)}; }
inline Bytes bits_xor(Bytes a, Bytes b) { return {veorq_u8(a.low, b.low), veorq_u8(a.high, b.high)}; }

template <int n> inline Bytes shift_right(Bytes v) {
    if constexpr (n == 0) {
        return v;
    } else {
        return {vshrq_n_u8(v.low, n), vshrq_n_u8(v.high, n)};
    }
}
template <int n> inline Bytes shift_left(Bytes v) { return {vshlq_n_u8(v.low, n), vshlq_n_u8(v.high, n)}; }

// 255 where a bit of the mask is set.
inline Bytes test_bits(Bytes v, Bytes mask) { return {vtstq_u8(v.low, mask.low), vtstq_u8(v.high, mask.high)}; }

// Byte i of every dword, four times.
template <int i> inline Bytes repeat_byte(Bytes v) {
    constexpr uint8_t where[] = {i,     i,     i,     i,     i + 4,  i + 4,  i + 4,  i + 4,
                                 i + 8, i + 8, i + 8, i + 8, i + 12, i + 12, i + 12, i + 12};
    const uint8x16_t  from    = vld1q_u8(where);
    return {vqtbl1q_u8(v.low, from), vqtbl1q_u8(v.high, from)};
}

// table[code] for codes below 16
inline Bytes look_up(const uint8_t * table, Bytes codes) {
    const uint8x16_t values = vld1q_u8(table);
    return {vqtbl1q_u8(values, codes.low), vqtbl1q_u8(values, codes.high)};
}

struct EightRows {
    const uint8_t * at[8];
};

// Bytes 4i … 4i + 3 behind the offset, of all rows, for i < 4.
inline void gather16(const EightRows & rows, size_t offset, Bytes * to) {
    const auto four = [&](int r, uint8x16_t Bytes::*half) {
        const auto       at = [&](int i) { return vreinterpretq_u32_u8(vld1q_u8(rows.at[r + i] + offset)); };
        const uint32x4_t a = at(0), b = at(1), c = at(2), d = at(3);
        const auto       pairs = [](uint32x4_t v) { return vreinterpretq_u64_u32(v); };
        const uint64x2_t ab = pairs(vzip1q_u32(a, b)), ab_high = pairs(vzip2q_u32(a, b));
        const uint64x2_t cd = pairs(vzip1q_u32(c, d)), cd_high = pairs(vzip2q_u32(c, d));
        to[0].*half = vreinterpretq_u8_u64(vzip1q_u64(ab, cd));
        to[1].*half = vreinterpretq_u8_u64(vzip2q_u64(ab, cd));
        to[2].*half = vreinterpretq_u8_u64(vzip1q_u64(ab_high, cd_high));
        to[3].*half = vreinterpretq_u8_u64(vzip2q_u64(ab_high, cd_high));
    };
    four(0, &Bytes::low);
    four(4, &Bytes::high);
}

inline Ints gather4(const EightRows & rows, size_t offset) {
    uint32_t v[8];
    for (int r = 0; r < 8; r++) {
        std::memcpy(v + r, rows.at[r] + offset, sizeof(uint32_t));
    }
    return load_bytes(v);
}

inline Eight halves_to_floats(uint16x4_t low, uint16x4_t high) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(low)), vcvt_f32_f16(vreinterpret_f16_u16(high))};
}

inline Eight gather_halves(const EightRows & rows, size_t offset) {
    uint16_t v[8];
    for (int r = 0; r < 8; r++) {
        std::memcpy(v + r, rows.at[r] + offset, sizeof(uint16_t));
    }
    return halves_to_floats(vld1_u16(v), vld1_u16(v + 4));
}

inline Ints all_ints(int32_t v) {
    const uint8x16_t all = vreinterpretq_u8_s32(vdupq_n_s32(v));
    return {all, all};
}
inline Ints add_ints(Ints a, Ints b) {
    return each_ints([](int32x4_t x, int32x4_t y) { return vaddq_s32(x, y); }, a, b);
}
template <int n> inline Ints shift_ints_right(Ints v) {
    if constexpr (n == 0) {
        return v;
    } else {
        return each_ints([](int32x4_t x) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n)); },
                         v);
    }
}
template <int n> inline Ints shift_ints_left(Ints v) {
    return each_ints([](int32x4_t x) { return vshlq_n_s32(x, n); }, v);
}

// Byte i of every dword as a number.
template <int i> inline Ints byte_of(Ints v) { return shift_ints_right<24>(shift_ints_left<24 - 8 * i>(v)); }
template <int i> inline Ints signed_byte_of(Ints v) {
    return each_ints([](int32x4_t x) { return vshrq_n_s32(x, 24); }, shift_ints_left<24 - 8 * i>(v));
}

// The lower or upper half of every dword as a float of 16 bits.
inline Eight low_halves(Ints v) {
    return halves_to_floats(vmovn_u32(vreinterpretq_u32_u8(v.low)), vmovn_u32(vreinterpretq_u32_u8(v.high)));
}
inline Eight high_halves(Ints v) { return low_halves(shift_ints_right<16>(v)); }

inline Eight to_floats(Ints v) {
    return {vcvtq_f32_s32(vreinterpretq_s32_u8(v.low)), vcvtq_f32_s32(vreinterpretq_s32_u8(v.high))};
}
inline Eight no_floats() { return {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}; }
inline Eight load_eight(const float * p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline void  store_eight(float * p, Eight v) {
     vst1q_f32(p, v.low);
     vst1q_f32(p + 4, v.high);
}
inline Eight spread_float(const float * p) { return {vld1q_dup_f32(p), vld1q_dup_f32(p)}; }
inline Eight negative(Eight v) { return {vnegq_f32(v.low), vnegq_f32(v.high)}; }
inline Eight times(Eight a, Eight b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
inline Eight plus_product(Eight sum, Eight a, Eight b) {
    return {vfmaq_f32(sum.low, a.low, b.low), vfmaq_f32(sum.high, a.high, b.high)};
}

// Of 32 numbers without their signs, the bits of the largest. Bit patterns order as the numbers do, and NaN lies above them all.
inline uint32_t largest_bits(const float * x) {
    uint32x4_t most = vdupq_n_u32(0);
    for (int i = 0; i < 32; i += 4) {
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    }
    return vmaxvq_u32(most);
}

// 32 numbers times factor, rounded to the nearest whole ones.
inline Bytes round_to_bytes(const float * x, float factor) {
    const auto four  = [&](int i) { return vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), factor))); };
    const auto eight = [&](int i) { return vqmovn_s16(vcombine_s16(four(i), four(i + 4))); };
    return {vreinterpretq_u8_s8(vcombine_s8(eight(0), eight(8))),
            vreinterpretq_u8_s8(vcombine_s8(eight(16), eight(24)))};
}

// Sums of signed bytes at even and at odd pairs of columns, of each half.
struct PairSums {
    int32_t even[2], odd[2];
};
inline PairSums sum_pairs(Bytes v) {
    const int16x8_t first  = vpaddlq_s8(vreinterpretq_s8_u8(v.low));
    const int16x8_t second = vpaddlq_s8(vreinterpretq_s8_u8(v.high));
    const int16x8_t even = vuzp1q_s16(first, second), odd = vuzp2q_s16(first, second);
    return {{vaddv_s16(vget_low_s16(even)), vaddv_s16(vget_high_s16(even))},
            {vaddv_s16(vget_low_s16(odd)), vaddv_s16(vget_high_s16(odd))}};
}

// Four activations, for every row of weights.
inline Bytes spread_bytes(const int8_t * four) {
    int32_t v;
    std::memcpy(&v, four, sizeof(v));
    return all_ints(v);
}

// Sums of codes times activations, one for each row of weights. Both are signed bytes: codes of eight bits lie in tiles less their
// offset.
constexpr bool sums_are_wide    = true;
constexpr bool codes_are_signed = true;

using Sums = Ints;

// What takes an offset of one off all codes: minus the sum of the activations.
inline int32_t start_from(int32_t even, int32_t odd) { return -even - odd; }

template <int shift> inline Sums begin_sums(Ints start) { return shift_ints_left<shift>(start); }
inline Ints                      subtract_starts(Ints a, Ints b) {
                         return each_ints([](int32x4_t x, int32x4_t y) { return vsubq_s32(x, y); }, a, b);
}

inline Sums add_products(Sums sums, Bytes codes, Bytes activations) {
    const auto dot = [](int32x4_t sum, int32x4_t a, int32x4_t b) {
        return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
    };
    return each_ints(dot, sums, codes, activations);
}

template <int factor> inline Ints end_sums(Sums sums) {
    static_assert(factor == 1, "wide sums need no parts");
    return sums;
}

inline Sums no_sums() { return no_bytes(); }

// GCC otherwise finishes the sums one after the other, which keeps more in memory than in registers.
inline void settle(Sums & v) { asm("" : "+w"(v.low), "+w"(v.high)); }

} // namespace

} // namespace buoy
