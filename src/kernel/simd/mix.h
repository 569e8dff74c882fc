#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/floats.h"

namespace buoy {

namespace {

// As many vectors of columns as leave registers for the sums of all rows.
constexpr int64_t mixed_vectors = lanes == 8 ? 2 : 4;

void add_mixed(const float * const * rows, const float (*weights)[mixed_rows], int64_t n, float * const * sums,
               int64_t n_cols) {
    constexpr int64_t strip = mixed_vectors * lanes;
    int64_t           at    = 0;
    for (; at + strip <= n_cols; at += strip) {
        Floats acc[mixed_rows][mixed_vectors];
        for (int64_t r = 0; r < mixed_rows; r++) {
            for (int64_t v = 0; v < mixed_vectors; v++) {
                acc[r][v] = load_floats(sums[r] + at + v * lanes);
            }
        }
        for (int64_t k = 0; k < n; k++) {
            Floats x[mixed_vectors];
            for (int64_t v = 0; v < mixed_vectors; v++) {
                x[v] = load_floats(rows[k] + at + v * lanes);
            }
            for (int64_t r = 0; r < mixed_rows; r++) {
                const Floats weight = broadcast(weights[k][r]);
                for (int64_t v = 0; v < mixed_vectors; v++) {
                    acc[r][v] = multiply_add(x[v], weight, acc[r][v]);
                }
            }
        }
        for (int64_t r = 0; r < mixed_rows; r++) {
            for (int64_t v = 0; v < mixed_vectors; v++) {
                store_floats(sums[r] + at + v * lanes, acc[r][v]);
            }
        }
    }
    for (int64_t k = 0; k < n && at < n_cols; k++) {
        for (int64_t r = 0; r < mixed_rows; r++) {
            for (int64_t i = at; i < n_cols; i++) {
                sums[r][i] += weights[k][r] * rows[k][i];
            }
        }
    }
}

} // namespace

} // namespace buoy
