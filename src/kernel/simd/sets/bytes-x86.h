#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// What products of quantised weights need of an x86 processor: registers of 32 bytes, of which each dword belongs to one of eight
// rows of weights. With AVX2 alone sums of products have 16 bits, with VNNI 32.

namespace buoy {

namespace {

using Bytes = __m256i;
using Ints  = __m256i; // eight
using Eight = __m256;  // floats

inline Bytes load_bytes(const void * p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
inline void  store_bytes(void * p, Bytes v) { _mm256_storeu_si256(static_cast<__m256i *>(p), v); }

inline Bytes no_bytes() { return _mm256_setzero_si256(); }
inline Bytes all_bytes(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
inline Bytes bits_and(Bytes a, Bytes b) { return _mm256_and_si256(a, b); }
inline Bytes bits_or(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
inline Bytes bits_xor(Bytes a, Bytes b) { return _mm256_xor_si256(a, b); }

// Bits cross from byte to byte: the caller masks them.
template <int n> inline Bytes shift_right(Bytes v) { return _mm256_srli_epi16(v, n); }
template <int n> inline Bytes shift_left(Bytes v) { return _mm256_slli_epi16(v, n); }

// 255 where a bit of the mask is set.
inline Bytes test_bits(Bytes v, Bytes mask) { return _mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask); }

// Byte i of every dword, four times.
template <int i> inline Bytes repeat_byte(Bytes v) {
    constexpr int64_t first = 0x0404040400000000 + 0x0101010101010101 * i, second = first + 0x0808080808080808;
    return _mm256_shuffle_epi8(v, _mm256_setr_epi64x(first, second, first, second));
}

// table[code] for codes below 16
inline Bytes look_up(const uint8_t * table, Bytes codes) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i *>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(once), codes);
}

struct EightRows {
    const uint8_t * at[8];
};

// Bytes 4i … 4i + 3 behind the offset, of all rows, for i < 4.
inline void gather16(const EightRows & rows, size_t offset, Bytes * to) {
    const auto two = [&](int i) {
        const auto at = [&](int r) { return reinterpret_cast<const __m128i *>(rows.at[r] + offset); };
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(at(i))), _mm_loadu_si128(at(i + 4)), 1);
    };
    const Bytes a = two(0), b = two(1), c = two(2), d = two(3);
    const Bytes ab = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    const Bytes cd = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    to[0] = _mm256_unpacklo_epi64(ab, cd);
    to[1] = _mm256_unpackhi_epi64(ab, cd);
    to[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    to[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

inline Ints gather4(const EightRows & rows, size_t offset) {
    int32_t v[8];
    for (int r = 0; r < 8; r++) {
        std::memcpy(v + r, rows.at[r] + offset, sizeof(int32_t));
    }
    return _mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

inline Eight gather_halves(const EightRows & rows, size_t offset) {
    int16_t v[8];
    for (int r = 0; r < 8; r++) {
        std::memcpy(v + r, rows.at[r] + offset, sizeof(int16_t));
    }
    return _mm256_cvtph_ps(_mm_setr_epi16(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]));
}

inline Ints                  all_ints(int32_t v) { return _mm256_set1_epi32(v); }
inline Ints                  add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
template <int n> inline Ints shift_ints_right(Ints v) { return _mm256_srli_epi32(v, n); }
template <int n> inline Ints shift_ints_left(Ints v) { return _mm256_slli_epi32(v, n); }

// Byte i of every dword as a number.
template <int i> inline Ints byte_of(Ints v) {
    return _mm256_srli_epi32(i < 3 ? _mm256_slli_epi32(v, 24 - 8 * i) : v, 24);
}
template <int i> inline Ints signed_byte_of(Ints v) {
    return _mm256_srai_epi32(i < 3 ? _mm256_slli_epi32(v, 24 - 8 * i) : v, 24);
}

// The lower or upper half of every dword as a float of 16 bits.
inline Eight low_halves(Ints v) {
    const Ints both = _mm256_packus_epi32(_mm256_and_si256(v, all_ints(0xffff)), _mm256_setzero_si256());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08)));
}
inline Eight high_halves(Ints v) { return low_halves(_mm256_srli_epi32(v, 16)); }

inline Eight to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
inline Eight no_floats() { return _mm256_setzero_ps(); }
inline Eight load_eight(const float * p) { return _mm256_loadu_ps(p); }
inline void  store_eight(float * p, Eight v) { _mm256_storeu_ps(p, v); }
inline Eight spread_float(const float * p) { return _mm256_broadcast_ss(p); }
inline Eight negative(Eight v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
inline Eight times(Eight a, Eight b) { return _mm256_mul_ps(a, b); }
inline Eight plus_product(Eight sum, Eight a, Eight b) { return _mm256_fmadd_ps(a, b, sum); }

// Of 32 numbers without their signs, the bits of the largest. Bit patterns order as the numbers do, and NaN lies above them all.
inline uint32_t largest_bits(const float * x) {
    const Ints number = all_ints(0x7fffffff);
    Ints       most   = no_bytes();
    for (int i = 0; i < 4; i++) {
        most = _mm256_max_epi32(most, _mm256_and_si256(load_bytes(x + 8 * i), number));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m         = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m         = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// 32 numbers times factor, rounded to the nearest whole ones.
inline Bytes round_to_bytes(const float * x, float factor) {
    const auto eight = [&](int i) {
        return _mm256_cvtps_epi32(_mm256_mul_ps(load_eight(x + 8 * i), _mm256_set1_ps(factor)));
    };
    // packing works within halves of a register: [0 2 4 6 | 1 3 5 7] in groups of four
    const Bytes mixed =
        _mm256_packs_epi16(_mm256_packs_epi32(eight(0), eight(1)), _mm256_packs_epi32(eight(2), eight(3)));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Sums of signed bytes at even and at odd pairs of columns, of each half.
struct PairSums {
    int32_t even[2], odd[2];
};
inline PairSums sum_pairs(Bytes v) {
    __m256i pairs       = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
    pairs               = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    pairs               = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
    const int32_t first = _mm256_extract_epi32(pairs, 0), second = _mm256_extract_epi32(pairs, 4);
    return {{static_cast<int16_t>(first), static_cast<int16_t>(second)}, {first >> 16, second >> 16}};
}

// Four activations, for every row of weights.
inline Bytes spread_bytes(const int8_t * four) {
    int32_t v;
    std::memcpy(&v, four, sizeof(v));
    return _mm256_set1_epi32(v);
}

// Sums of unsigned codes times signed activations, one for each row of weights.
constexpr bool codes_are_signed = false;

#if (defined(__AVX512VNNI__) && defined(__AVX512VL__)) || defined(__AVXVNNI__)

constexpr bool sums_are_wide = true; // the codes may have eight bits

using Sums = __m256i;

// What takes an offset of one off all codes: minus the sum of the activations at even pairs of columns and that at odd pairs.
inline int32_t start_from(int32_t even, int32_t odd) { return -even - odd; }

template <int shift> inline Sums begin_sums(Ints start) { return _mm256_slli_epi32(start, shift); }
inline Ints                      subtract_starts(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }

inline Sums add_products(Sums sums, Bytes codes, Bytes activations) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sums, codes, activations);
#else
    return _mm256_dpbusd_epi32(sums, codes, activations);
#endif
}

template <int factor> inline Ints end_sums(Sums sums) {
    static_assert(factor == 1, "wide sums need no parts");
    return sums;
}

#else

constexpr bool sums_are_wide = false;

// Two sums of 16 bits for each row. Arithmetic is modulo 2^16, so only the result has to fit: sixteen products of |code − offset| ≤ 16
// and |activation| ≤ 127, or eight of ≤ 32.
using Sums = __m256i;

inline int32_t start_from(int32_t even, int32_t odd) {
    return static_cast<int32_t>(static_cast<uint32_t>(-odd) << 16 | (static_cast<uint32_t>(-even) & 0xffff));
}

template <int shift> inline Sums begin_sums(Ints start) { return _mm256_slli_epi16(start, shift); }
inline Ints                      subtract_starts(Ints a, Ints b) { return _mm256_sub_epi16(a, b); }

inline Sums add_products(Sums sums, Bytes codes, Bytes activations) {
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, activations));
}

template <int factor> inline Ints end_sums(Sums sums) { return _mm256_madd_epi16(sums, _mm256_set1_epi16(factor)); }

#endif

inline Sums no_sums() { return no_bytes(); }

// GCC reorders integer sums into trees that need more registers than there are; a sum that passed here is left alone.
inline void settle(Sums & v) {
#if defined(__AVX512VL__)
    asm("" : "+v"(v));
#else
    asm("" : "+x"(v));
#endif
}

} // namespace

} // namespace buoy
