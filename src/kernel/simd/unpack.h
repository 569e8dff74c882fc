#pragma once

#include "kernel/simd/matmul.h"

// How the types of weights lie in a file, and from there into tiles. Each format says what 32 columns of one row are.

namespace buoy {

namespace {

struct RowCodes {
    alignas(32) int8_t codes[32];
    float d[2]; // of columns 0 … 15 and 16 … 31; one scale for both where the type has one
    float m;
};

inline float half(const uint8_t * p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return _cvtsh_ss(bits);
}

inline __m256i nibbles(const uint8_t * p) { // low ones first
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15));
}

// 16 where the bit is set.
inline __m256i fifth_bits(const uint8_t * p) {
    int32_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i mask  = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), which);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask), _mm256_set1_epi8(16));
}

struct Q4_0 {
    using Block = ScaledBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p = row + i * 18;
        to.d[0]           = half(p);
        store(to.codes, _mm256_sub_epi8(nibbles(p + 2), _mm256_set1_epi8(8)));
    }
};

struct Q4_1 {
    using Block = ShiftedBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p = row + i * 20;
        to.d[0]           = half(p);
        to.m              = half(p + 2);
        store(to.codes, nibbles(p + 4));
    }
};

struct Q5_0 {
    using Block = ScaledBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p     = row + i * 22;
        const __m256i   codes = _mm256_or_si256(nibbles(p + 6), fifth_bits(p + 2));
        to.d[0]               = half(p);
        store(to.codes, _mm256_sub_epi8(codes, _mm256_set1_epi8(16)));
    }
};

struct Q5_1 {
    using Block = ShiftedBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p     = row + i * 24;
        const __m256i   codes = _mm256_or_si256(nibbles(p + 8), fifth_bits(p + 4));
        to.d[0]               = half(p);
        to.m                  = half(p + 2) + 16.0f * to.d[0];
        store(to.codes, _mm256_sub_epi8(codes, _mm256_set1_epi8(16)));
    }
};

struct Q8_0 {
    using Block = WideBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p = row + i * 34;
        to.d[0]           = half(p);
        store(to.codes, load(p + 2));
    }
};

// The 6-bit scale and minimum of one of 8 sub-blocks, from 12 bytes.
inline void scale_min(const uint8_t * packed, int64_t i, float & scale, float & min) {
    const uint8_t * p = packed + i;
    const int       s = i < 4 ? p[0] & 63 : (p[4] & 15) | (p[-4] >> 6 << 4);
    const int       m = i < 4 ? p[4] & 63 : (p[4] >> 4) | (p[0] >> 6 << 4);
    scale             = static_cast<float>(s);
    min               = static_cast<float>(m);
}

// Sub-blocks 2c and 2c + 1 are the low and the high halves of the same 32 bytes.
inline __m256i sub_nibbles(const uint8_t * codes, int64_t i) {
    const __m256i both = load(codes + i / 2 * 32);
    return _mm256_and_si256(i % 2 == 0 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
}

struct Q4_K {
    using Block = ShiftedBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p = row + i / 8 * 144;
        scale_min(p + 4, i % 8, to.d[0], to.m);
        to.d[0] *= half(p);
        to.m *= -half(p + 2);
        store(to.codes, sub_nibbles(p + 16, i % 8));
    }
};

struct Q5_K {
    using Block = ShiftedBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p   = row + i / 8 * 176;
        const __m256i   bit = _mm256_set1_epi8(static_cast<char>(1 << i % 8));
        const __m256i   set = _mm256_cmpeq_epi8(_mm256_and_si256(load(p + 16), bit), bit);
        const __m256i   low = sub_nibbles(p + 48, i % 8);
        scale_min(p + 4, i % 8, to.d[0], to.m);
        to.d[0] *= half(p);
        to.m = 16.0f * to.d[0] - to.m * half(p + 2);
        // 16 is taken off where the bit is not set
        store(to.codes, _mm256_sub_epi8(low, _mm256_andnot_si256(set, _mm256_set1_epi8(16))));
    }
};

struct Q6_K {
    using Block = HalvesBlock;
    static void decode(const uint8_t * row, int64_t i, RowCodes & to) {
        const uint8_t * p     = row + i / 8 * 210;
        const int64_t   half_ = i % 8 / 4, n = i % 4; // 128 columns, 32 of them
        const __m256i   low4 = load(p + half_ * 64 + n % 2 * 32);
        const __m256i   low  = _mm256_and_si256(n < 2 ? low4 : _mm256_srli_epi16(low4, 4), _mm256_set1_epi8(15));
        const __m256i   two  = _mm256_srl_epi16(load(p + 128 + half_ * 32), _mm_cvtsi32_si128(static_cast<int>(2 * n)));
        const __m256i   high = _mm256_slli_epi16(_mm256_and_si256(two, _mm256_set1_epi8(3)), 4);
        const float     d    = half(p + 208);
        for (int64_t j = 0; j < 2; j++) {
            to.d[j] = d * static_cast<float>(static_cast<int8_t>(p[192 + half_ * 8 + n * 2 + j]));
        }
        store(to.codes, _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32)));
    }
};

// codes of 8 rows, 32 columns each -> [column / 4][row][4 columns]
inline void interleave(const RowCodes * rows, int8_t (*to)[32]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i++) {
        a[i] = load(rows[i].codes);
    }
    for (int i = 0; i < 8; i += 2) {
        b[i]     = _mm256_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i]     = _mm256_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        store(to[i], _mm256_permute2x128_si256(a[i], a[i + 4], 0x20));
        store(to[i + 4], _mm256_permute2x128_si256(a[i], a[i + 4], 0x31));
    }
}

inline __m256i start_of(const int8_t (*w)[32], int first, int last) {
    const __m256i offset = _mm256_set1_epi8(static_cast<char>(128));
    __m256i       sum    = _mm256_setzero_si256();
    for (int s = first; s < last; s++) {
        sum = _mm256_sub_epi16(sum, _mm256_maddubs_epi16(offset, load(w[s])));
    }
    return sum;
}

inline void fill(const RowCodes * rows, CodeBlock & to) {
    interleave(rows, to.w);
    store(to.start, start_of(to.w, 0, 8));
}

inline void fill(const RowCodes * rows, ScaledBlock & to) {
    fill(rows, to.codes);
    for (int i = 0; i < 8; i++) {
        to.d[i] = rows[i].d[0];
    }
}

inline void fill(const RowCodes * rows, ShiftedBlock & to) {
    fill(rows, to.codes);
    for (int i = 0; i < 8; i++) {
        to.d[i] = rows[i].d[0];
        to.m[i] = rows[i].m;
    }
}

inline void fill(const RowCodes * rows, HalvesBlock & to) {
    interleave(rows, to.w);
    for (int h = 0; h < 2; h++) {
        store(to.start[h], start_of(to.w, 4 * h, 4 * h + 4));
        for (int i = 0; i < 8; i++) {
            to.d[h][i] = rows[i].d[h];
        }
    }
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)

inline void fill(const RowCodes * rows, WideBlock & to) {
    interleave(rows, to.w);
    __m256i sum = _mm256_setzero_si256();
    for (int s = 0; s < 8; s++) {
        sum = _mm256_dpbusd_epi32(sum, _mm256_set1_epi8(static_cast<char>(128)), load(to.w[s]));
    }
    store(to.start, _mm256_sub_epi32(_mm256_setzero_si256(), sum));
    for (int i = 0; i < 8; i++) {
        to.d[i] = rows[i].d[0];
    }
}

#else

inline void fill(const RowCodes * rows, WideBlock & to) {
    const __m256i low4 = _mm256_set1_epi8(15);
    fill(rows, to.high);
    for (int s = 0; s < 8; s++) { // code = 16·high + low, low ≥ 0
        const __m256i code = load(to.high.w[s]);
        const __m256i low  = _mm256_and_si256(code, low4);
        const __m256i sign = _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), code), _mm256_set1_epi8(-16));
        store(to.low.w[s], low);
        store(to.high.w[s], _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(code, 4), low4), sign));
    }
    store(to.high.start, start_of(to.high.w, 0, 8));
    store(to.low.start, start_of(to.low.w, 0, 8));
    for (int i = 0; i < 8; i++) {
        to.d[i] = rows[i].d[0];
    }
}

#endif

template <class Format> void unpack(const WeightSpan & span, WeightTile & tile) {
    auto *   to = reinterpret_cast<typename Format::Block *>(tile.bytes);
    RowCodes rows[kernel_rows];
    for (int64_t i = 0; i < span.block_count; i++) {
        for (int64_t r = 0; r < kernel_rows; r++) { // rows that are not there repeat the last, and are never stored
            const int64_t at = r < span.n_rows ? r : span.n_rows - 1;
            Format::decode(span.rows + static_cast<size_t>(at) * span.row_size, span.block_first + i, rows[r]);
        }
        fill(rows, to[i]);
    }
}

} // namespace

} // namespace buoy
