#pragma once

#include "kernel/simd/tiles.h"

#include <cstring>
#include <utility>

// How types of weights lie in a file, and from there in tiles: eight rows at a time, whose bytes are interleaved first and taken
// apart then. decode() gets the first bytes of the same n_blocks · 32 columns of each row.

namespace buoy {

namespace {

inline Bytes low_nibbles(Bytes v) { return bits_and(v, all_bytes(15)); }
inline Bytes high_nibbles(Bytes v) { return low_nibbles(shift_right<4>(v)); }

// Bits n and n + 1 of every byte.
template <int n> inline Bytes two_bits(Bytes v) { return bits_and(shift_right<n>(v), all_bytes(3)); }

// 2^to where bit n of a byte is set.
template <int n, int to> inline Bytes move_bit(Bytes v) {
    const Bytes moved = n > to ? shift_right<(n > to ? n - to : 0)>(v) : shift_left<(n > to ? 0 : to - n)>(v);
    return bits_and(moved, all_bytes(1 << to));
}

// Calls f(i) for all i < n, each a constant.
template <int n, class F> inline void for_each(const F & f) {
    [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
    (std::make_integer_sequence<int, n>{});
}

// 32 columns as most types have them in 16 bytes: the first half in the low nibbles.
template <class Block, class Change>
inline void set_nibbles(const EightRows & rows, size_t at, Block & to, Change change) {
    Bytes both[4];
    gather16(rows, at, both);
    for_each<4>([&](auto s) {
        to.set_codes(s, change(s, low_nibbles(both[s])));
        to.set_codes(s + 4, change(std::integral_constant<int, s + 4>{}, high_nibbles(both[s])));
    });
}

constexpr auto unchanged = [](int, Bytes codes) { return codes; };

// Bits 4s … 4s + 3 of every dword of v, as 16 in the four bytes of step s.
template <int s> inline Bytes fifth_bits(Ints v) {
    const Ints mask = all_ints(s % 2 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010));
    return bits_and(test_bits(repeat_byte<s / 2>(v), mask), all_bytes(16));
}

struct Q4_0 {
    static constexpr Coding  coding   = {.offset = 3};
    static constexpr int64_t n_blocks = 1, size = 18;

    static void decode(const EightRows & rows, TileBlock<Q4_0> * to) {
        store_eight(to->d[0], gather_halves(rows, 0));
        set_nibbles(rows, 2, *to, unchanged);
    }
};

struct Q4_1 {
    static constexpr Coding  coding   = {.has_min = true};
    static constexpr int64_t n_blocks = 1, size = 20;

    static void decode(const EightRows & rows, TileBlock<Q4_1> * to) {
        const Ints both = gather4(rows, 0);
        store_eight(to->d[0], low_halves(both));
        store_eight(to->m[0], high_halves(both));
        set_nibbles(rows, 4, *to, unchanged);
    }
};

struct Q5_0 {
    static constexpr Coding  coding   = {.offset = 4};
    static constexpr int64_t n_blocks = 1, size = 22;

    static void decode(const EightRows & rows, TileBlock<Q5_0> * to) {
        const Ints bits = gather4(rows, 2);
        store_eight(to->d[0], gather_halves(rows, 0));
        set_nibbles(rows, 6, *to, [&](auto s, Bytes codes) { return bits_or(codes, fifth_bits<s>(bits)); });
    }
};

struct Q5_1 {
    static constexpr Coding  coding   = {.offset = 4, .has_min = true};
    static constexpr int64_t n_blocks = 1, size = 24;

    static void decode(const EightRows & rows, TileBlock<Q5_1> * to) {
        const Ints  both = gather4(rows, 0), bits = gather4(rows, 4);
        const Eight d = low_halves(both);
        store_eight(to->d[0], d);
        store_eight(to->m[0], plus_product(high_halves(both), d, to_floats(all_ints(16)))); // the offset is taken off
        set_nibbles(rows, 8, *to, [&](auto s, Bytes codes) { return bits_or(codes, fifth_bits<s>(bits)); });
    }
};

struct Q8_0 {
    static constexpr Coding  coding   = {.offset = 7, .is_wide = true};
    static constexpr int64_t n_blocks = 1, size = 34;

    static void decode(const EightRows & rows, TileBlock<Q8_0> * to) {
        store_eight(to->d[0], gather_halves(rows, 0));
        for (int half = 0; half < 2; half++) {
            Bytes codes[4];
            gather16(rows, 2 + 16 * static_cast<size_t>(half), codes);
            for (int s = 0; s < 4; s++) {
                to->set_codes(4 * half + s, bits_xor(codes[s], all_bytes(128)));
            }
        }
    }
};

// Numbers that a nibble stands for.
struct IQ4_NL {
    static constexpr Coding  coding   = {.offset = 7, .is_wide = true};
    static constexpr int64_t n_blocks = 1, size = 18;
    static constexpr uint8_t values[] = {1,   24,  45,  63,  79,  93,  106, 118,
                                         129, 141, 153, 166, 181, 197, 217, 241}; // − 128

    static void decode(const EightRows & rows, TileBlock<IQ4_NL> * to) {
        store_eight(to->d[0], gather_halves(rows, 0));
        set_nibbles(rows, 2, *to, [](int, Bytes codes) { return look_up(values, codes); });
    }
};

struct MXFP4 {
    static constexpr Coding  coding   = {.offset = 4};
    static constexpr int64_t n_blocks = 1, size = 17;
    static constexpr uint8_t values[] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}; // − 16, halves

    static void decode(const EightRows & rows, TileBlock<MXFP4> * to) {
        for (size_t r = 0; r < kernel_rows; r++) { // 2^(e − 128); the two smallest are not normal numbers
            const uint32_t e    = rows.at[r][0];
            const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
            std::memcpy(&to->d[0][r], &bits, sizeof(bits));
        }
        set_nibbles(rows, 1, *to, [](int, Bytes codes) { return look_up(values, codes); });
    }
};

// Eight blocks of 32 columns whose scales and minima have 6 bits: a header of d, d of the minima, and 12 bytes.
struct SuperScales {
    explicit SuperScales(const EightRows & rows) {
        Bytes header[4];
        gather16(rows, 0, header);
        const Bytes six = all_bytes(63), four = all_bytes(15), top = all_bytes(48);
        d         = low_halves(header[0]);
        d_min     = high_halves(header[0]);
        scales[0] = bits_and(header[1], six);
        minima[0] = bits_and(header[2], six);
        scales[1] = bits_or(bits_and(header[3], four), bits_and(shift_right<2>(header[1]), top));
        minima[1] = bits_or(bits_and(shift_right<4>(header[3]), four), bits_and(shift_right<2>(header[2]), top));
    }

    template <int i> Eight scale() const { return times(to_floats(byte_of<i % 4>(scales[i / 4])), d); }
    template <int i> Eight min() const { return times(to_floats(byte_of<i % 4>(minima[i / 4])), d_min); }

    Eight d, d_min;
    Ints  scales[2], minima[2]; // a byte for each of four blocks
};

inline void gather32(const EightRows & rows, size_t offset, Bytes * to) {
    gather16(rows, offset, to);
    gather16(rows, offset + 16, to + 4);
}

struct Q4_K {
    static constexpr Coding  coding   = {.has_min = true};
    static constexpr int64_t n_blocks = 8, size = 144;

    static void decode(const EightRows & rows, TileBlock<Q4_K> * to) {
        const SuperScales super(rows);
        for_each<8>([&](auto i) {
            store_eight(to[i].d[0], super.scale<i>());
            store_eight(to[i].m[0], negative(super.min<i>()));
        });
        for (int two = 0; two < 4; two++) { // blocks 2·two and 2·two + 1 are the nibbles of the same 32 bytes
            Bytes both[8];
            gather32(rows, 16 + 32 * static_cast<size_t>(two), both);
            for (int s = 0; s < 8; s++) {
                to[2 * two].set_codes(s, low_nibbles(both[s]));
                to[2 * two + 1].set_codes(s, high_nibbles(both[s]));
            }
        }
    }
};

struct Q5_K {
    static constexpr Coding  coding   = {.offset = 4, .has_min = true};
    static constexpr int64_t n_blocks = 8, size = 176;

    static void decode(const EightRows & rows, TileBlock<Q5_K> * to) {
        const SuperScales super(rows);
        for_each<8>([&](auto i) {
            const Eight d = super.scale<i>();
            store_eight(to[i].d[0], d);
            store_eight(to[i].m[0], plus_product(negative(super.min<i>()), d, to_floats(all_ints(16))));
        });
        Bytes high[8];
        gather32(rows, 16, high);
        for_each<4>([&](auto two) {
            Bytes both[8];
            gather32(rows, 48 + 32 * static_cast<size_t>(two), both);
            for (int s = 0; s < 8; s++) {
                to[2 * two].set_codes(s, bits_or(low_nibbles(both[s]), move_bit<2 * two, 4>(high[s])));
                to[2 * two + 1].set_codes(s, bits_or(high_nibbles(both[s]), move_bit<2 * two + 1, 4>(high[s])));
            }
        });
    }
};

struct Q6_K {
    static constexpr Coding  coding   = {.offset = 5, .n_scales = 2};
    static constexpr int64_t n_blocks = 8, size = 210;

    static void decode(const EightRows & rows, TileBlock<Q6_K> * to) {
        Ints scales[4]; // a byte for each of four half blocks
        gather16(rows, 192, scales);
        const Eight d = gather_halves(rows, 208);
        for_each<16>([&](auto i) {
            store_eight(to[i / 2].d[i % 2], times(to_floats(signed_byte_of<i % 4>(scales[i / 4])), d));
        });
        for (size_t half = 0; half < 2; half++, to += 4) {
            Bytes first[8], second[8], high[8];
            gather32(rows, 64 * half, first);
            gather32(rows, 64 * half + 32, second);
            gather32(rows, 128 + 32 * half, high);
            for (int s = 0; s < 8; s++) {
                const auto top = [](Bytes two) { return shift_left<4>(two); };
                to[0].set_codes(s, bits_or(low_nibbles(first[s]), top(two_bits<0>(high[s]))));
                to[1].set_codes(s, bits_or(low_nibbles(second[s]), top(two_bits<2>(high[s]))));
                to[2].set_codes(s, bits_or(high_nibbles(first[s]), top(two_bits<4>(high[s]))));
                to[3].set_codes(s, bits_or(high_nibbles(second[s]), top(two_bits<6>(high[s]))));
            }
        }
    }
};

struct Q2_K {
    static constexpr Coding  coding   = {.n_scales = 2, .has_min = true};
    static constexpr int64_t n_blocks = 8, size = 84;

    static void decode(const EightRows & rows, TileBlock<Q2_K> * to) {
        Bytes scales[4]; // low nibbles, and minima in the high ones
        gather16(rows, 0, scales);
        const Ints  both = gather4(rows, 80);
        const Eight d = low_halves(both), d_min = negative(high_halves(both));
        for_each<16>([&](auto i) {
            store_eight(to[i / 2].d[i % 2], times(to_floats(byte_of<i % 4>(low_nibbles(scales[i / 4]))), d));
            store_eight(to[i / 2].m[i % 2], times(to_floats(byte_of<i % 4>(high_nibbles(scales[i / 4]))), d_min));
        });
        for (size_t half = 0; half < 2; half++, to += 4) {
            Bytes codes[8];
            gather32(rows, 16 + 32 * half, codes);
            for_each<4>([&](auto i) {
                for (int s = 0; s < 8; s++) {
                    to[i].set_codes(s, two_bits<2 * i>(codes[s]));
                }
            });
        }
    }
};

struct Q3_K {
    static constexpr Coding  coding   = {.offset = 2, .n_scales = 2};
    static constexpr int64_t n_blocks = 8, size = 110;

    static void decode(const EightRows & rows, TileBlock<Q3_K> * to) {
        const Ints low[] = {gather4(rows, 96), gather4(rows, 100)}, high = gather4(rows, 104);
        const Ints scales[] = {
            bits_or(low_nibbles(low[0]), shift_left<4>(two_bits<0>(high))),
            bits_or(low_nibbles(low[1]), shift_left<4>(two_bits<2>(high))),
            bits_or(high_nibbles(low[0]), shift_left<4>(two_bits<4>(high))),
            bits_or(high_nibbles(low[1]), shift_left<4>(two_bits<6>(high))),
        };
        const Eight d = gather_halves(rows, 108);
        for_each<16>([&](auto i) {
            const Ints scale = add_ints(byte_of<i % 4>(scales[i / 4]), all_ints(-32));
            store_eight(to[i / 2].d[i % 2], times(to_floats(scale), d));
        });
        Bytes third[8];
        gather32(rows, 0, third);
        for_each<2>([&](auto half) {
            Bytes codes[8];
            gather32(rows, 32 + 32 * static_cast<size_t>(half), codes);
            for_each<4>([&](auto i) {
                for (int s = 0; s < 8; s++) {
                    to[4 * half + i].set_codes(s,
                                               bits_or(two_bits<2 * i>(codes[s]), move_bit<4 * half + i, 2>(third[s])));
                }
            });
        });
    }
};

struct IQ4_XS {
    static constexpr Coding  coding   = IQ4_NL::coding;
    static constexpr int64_t n_blocks = 8, size = 136;

    static void decode(const EightRows & rows, TileBlock<IQ4_XS> * to) {
        const Ints  header = gather4(rows, 0), low = gather4(rows, 4); // d and two bits a scale; four bits a scale
        const Eight d = low_halves(header);
        for_each<8>([&](auto i) {
            const Ints four  = bits_and(shift_ints_right<4 * i>(low), all_ints(15));
            const Ints two   = bits_and(shift_ints_right<16 + 2 * i>(header), all_ints(3));
            const Ints scale = add_ints(bits_or(four, shift_ints_left<4>(two)), all_ints(-32));
            store_eight(to[i].d[0], times(to_floats(scale), d));
            set_nibbles(rows, 8 + 16 * static_cast<size_t>(i), to[i],
                        [](int, Bytes codes) { return look_up(IQ4_NL::values, codes); });
        });
    }
};

// Decodes a span from left to right: target(i) says where blocks from the i-th on go, done(i) is told when they are there.
// Meanwhile what is needed next comes closer.
template <class Format, class Target, class Done>
inline void decode_span(const WeightSpan & span, const Target & target, const Done & done) {
    EightRows rows;
    for (int64_t r = 0; r < kernel_rows; r++) { // rows that are not there repeat the last, and are never stored
        const int64_t at = r < span.n_rows ? r : span.n_rows - 1;
        rows.at[r]       = span.rows + static_cast<size_t>(at) * span.row_size +
                     static_cast<size_t>(span.block_first / Format::n_blocks * Format::size);
    }
    const uint8_t * next = span.next;
    for (int64_t i = 0; i < span.block_count; i += Format::n_blocks) {
        Format::decode(rows, target(i));
        for (const uint8_t *& row : rows.at) {
            row += Format::size;
        }
        const auto so_far = static_cast<size_t>(i + Format::n_blocks), all = static_cast<size_t>(span.block_count);
        for (const uint8_t * stop = span.next + span.next_size * so_far / all; next < stop; next += 64) {
            __builtin_prefetch(next, 0, 2); // into the second cache: the first one has too few misses under way
        }
        done(i);
    }
}

template <class Format> void unpack(const WeightSpan & span, WeightTile & tile) {
    auto * to = reinterpret_cast<TileBlock<Format> *>(tile.bytes);
    decode_span<Format>(
        span, [&](int64_t i) { return to + i; }, [](int64_t) {});
}

} // namespace

} // namespace buoy
