#pragma once

#include "kernel/kernels.h"

#include <ggml.h>

namespace buoy {

// Whether mul_packed has a kernel for rows of that type and length on this processor.
bool can_mul_packed(ggml_type type, int64_t n_cols);

// x [K, N] for any number of products with it: 8-bit values, as ggml's own kernels for quantised weights make them.
ggml_tensor * pack_rows(ggml_context * ctx, ggml_tensor * x);

// w [K, M] · x [K, N] -> [M, N]. The weights lie in plain host memory and are unpacked tile by tile, so they need no second
// layout, whatever the number of rows.
ggml_tensor * mul_packed(ggml_context * ctx, ggml_tensor * w, ggml_tensor * packed, int64_t n_rows);

// silu(gate · x), or gelu(gate · x), times (up · x), neither of which is kept.
ggml_tensor * mul_packed_gated(ggml_context * ctx, ggml_tensor * gate, ggml_tensor * up, ggml_tensor * packed,
                               int64_t n_rows, Gating gating = Gating::silu);

} // namespace buoy
