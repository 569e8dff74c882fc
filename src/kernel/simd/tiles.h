#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/bytes.h"

#include <type_traits>

// Tiles of weights, unpacked for multiplying. Only this folder is compiled for its instruction sets, so nothing here may define
// what other code could share at link time: internal linkage throughout.

namespace buoy {

namespace {

constexpr int no_offset = -1;

// What 32 columns of a type of weights are: w = d·(code − 2^offset) + m, with one scale for all of them or one for each half. The
// codes of wide types have eight bits, those of others five, or six if each half has a scale.
struct Coding {
    int  offset   = no_offset;
    int  n_scales = 1;
    bool has_min  = false;
    bool is_wide  = false;
};

template <int n> struct Minima { float m[n][kernel_rows]; };
template <> struct Minima<0> {};

// Columns 4s … 4s + 3 of the eight rows lie together. Where sums are narrow, wide codes are split: 16 · the first + the second. Where
// the instructions take signed bytes, wide codes lie there less their offset; others are below 128 anyway.
template <class Format> struct TileBlock : Minima<Format::coding.has_min ? Format::coding.n_scales : 0> {
    static constexpr Coding coding  = Format::coding;
    static constexpr bool   split   = coding.is_wide && !sums_are_wide;
    static constexpr bool   shifted = coding.is_wide && codes_are_signed;
    static constexpr int    offset =
        shifted ? no_offset : coding.offset - (split ? 4 : 0); // of the codes, the first if split

    uint8_t codes[split ? 2 : 1][kernel_block / 4][sizeof(Bytes)];
    float   d[coding.n_scales][kernel_rows];

    void set_codes(int step, Bytes v) {
        if constexpr (split) {
            store_bytes(codes[0][step], bits_and(shift_right<4>(v), all_bytes(15)));
            store_bytes(codes[1][step], bits_and(v, all_bytes(15)));
        } else {
            store_bytes(codes[0][step], shifted ? bits_xor(v, all_bytes(128)) : v);
        }
    }
};

} // namespace

} // namespace buoy
