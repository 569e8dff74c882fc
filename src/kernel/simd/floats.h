#pragma once

#include "kernel/simd/set.h"

#include <array>
#include <cstddef>
#include <utility>

namespace buoy {

namespace {

// e^x within 2 units in the last place; 0 below the smallest normal number, NaN stays.
inline Floats exponential(Floats x) {
    const Floats least = broadcast(-87.0f);
    const Floats kept  = min(broadcast(88.0f), max(least, x));
    const Floats n     = round_to_nearest(kept * broadcast(1.44269504f));
    Floats       r     = negated_multiply_add(n, broadcast(0.693359375f), kept); // ln 2 in two parts
    r                  = negated_multiply_add(n, broadcast(-2.12194440e-4f), r);
    // Taylor's series to r^7 / 7!, |r| ≤ ln 2 / 2
    constexpr float series[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
    Floats          y        = broadcast(1.0f / 5040.0f);
    for (const float c : series) {
        y = multiply_add(y, r, broadcast(c));
    }
    return zero_below(times_power_of_two(y, n), x, least);
}

// c = a·b or c + a·b for R rows of a and C vectors of columns; b is [depth, width].
template <int R, int C>
inline void multiply_columns(const float * a, size_t a_stride, const float * b, int64_t depth, size_t width, float * c,
                             size_t c_stride, bool add) {
    Floats sums[R][C];
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            sums[r][i] = add ? load_floats(c + static_cast<size_t>(r) * c_stride + lanes * i) : zeros();
        }
    }
    for (int64_t k = 0; k < depth; k++, b += width) {
        Floats columns[C];
        for (int i = 0; i < C; i++) {
            columns[i] = load_floats(b + lanes * i);
        }
        for (int r = 0; r < R; r++) {
            const Floats v = broadcast(a[static_cast<size_t>(r) * a_stride + static_cast<size_t>(k)]);
            for (int i = 0; i < C; i++) {
                sums[r][i] = multiply_add(v, columns[i], sums[r][i]);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < C; i++) {
            store_floats(c + static_cast<size_t>(r) * c_stride + lanes * i, sums[r][i]);
        }
    }
}

// All columns, two vectors at a time; width a multiple of 16.
template <int R>
inline void multiply_floats(const float * a, size_t a_stride, const float * b, int64_t depth, size_t width, float * c,
                            size_t c_stride, bool add) {
    size_t at = 0;
    for (; at + 2 * lanes <= width; at += 2 * lanes) {
        multiply_columns<R, 2>(a, a_stride, b + at, depth, width, c + at, c_stride, add);
    }
    if (at < width) {
        multiply_columns<R, 1>(a, a_stride, b + at, depth, width, c + at, c_stride, add);
    }
}

// Any number of rows, in groups of nearly the same size, as many as there are registers for.
void multiply_floats(const float * a, size_t a_stride, const float * b, int64_t depth, size_t width, float * c,
                     size_t c_stride, bool add, int64_t n_rows) {
    using Part           = void (*)(const float *, size_t, const float *, int64_t, size_t, float *, size_t, bool);
    constexpr auto parts = []<int... r>(std::integer_sequence<int, r...>) {
        return std::array<Part, sizeof...(r)>{multiply_floats<r + 1>...};
    }
    (std::make_integer_sequence<int, sum_rows>());
    const int64_t n_parts = (n_rows + sum_rows - 1) / sum_rows;
    for (int64_t i = 0; i < n_parts; i++) {
        const int64_t first = n_rows * i / n_parts, n = n_rows * (i + 1) / n_parts - first;
        parts[static_cast<size_t>(n - 1)](a + static_cast<size_t>(first) * a_stride, a_stride, b, depth, width,
                                          c + static_cast<size_t>(first) * c_stride, c_stride, add);
    }
}

} // namespace

} // namespace buoy
