#include "tensor-source.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace buoy {

namespace {

// E4M3: a sign, 4 bits of exponent with bias 7, 3 of mantissa; no infinities, all ones is NaN.
std::array<float, 256> make_fp8_table() {
    std::array<float, 256> table{};
    for (int i = 0; i < 256; ++i) {
        const int exponent = i >> 3 & 15;
        const int mantissa = i & 7;
        float     value    = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                           : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
        if ((i & 0x7f) == 0x7f) {
            value = std::numeric_limits<float>::quiet_NaN();
        }
        table[static_cast<size_t>(i)] = i >= 128 ? -value : value;
    }
    return table;
}

void decode_fp8(const Fp8Scales & scales, const char * row, int64_t i, int64_t n_cols, float * out) {
    static const std::array<float, 256> table = make_fp8_table();

    const float * factors = scales.row(i);
    for (int64_t col = 0; col < n_cols; ++col) {
        out[col] = table[static_cast<unsigned char>(row[col])] * factors[col / scales.block_cols];
    }
}

} // namespace

void decode_row(const TensorSource & source, const char * row, int64_t i, int64_t n_cols, float * out) {
    if (source.scales) {
        decode_fp8(*source.scales, row, i, n_cols, out);
    } else if (source.type == GGML_TYPE_F32) {
        std::memcpy(out, row, static_cast<size_t>(n_cols) * sizeof(float));
    } else {
        ggml_get_type_traits(source.type)->to_float(row, out, n_cols);
    }
}

} // namespace buoy
