#pragma once

#include "kernel/kernels.h"

#include <ggml.h>

namespace buoy {

// Products of a mixture of experts, rows grouped by expert: an expert's weights are unpacked once for all rows that chose it, and
// those of an expert that nobody chose are never read. X experts, U used by each of n rows; a slot is one of the U choices of a row.
// Every type and length that can_mul_packed() knows.

// chosen i32 [U, n] -> where each slot goes: the slots of an expert follow each other, padded to whole quads.
ggml_tensor * route_rows(ggml_context * ctx, ggml_tensor * chosen, int64_t n_expert);

// x [K, n] -> 8-bit values, each row once for each of its slots, in the route's order.
ggml_tensor * pack_routed(ggml_context * ctx, ggml_tensor * x, ggml_tensor * route);

// silu(gate · x), or gelu(gate · x), times (up · x), and its 8-bit values: gate, up [K, M, X] -> [M, places].
ggml_tensor * mul_routed_gated(ggml_context * ctx, ggml_tensor * gate, ggml_tensor * up, ggml_tensor * packed,
                               ggml_tensor * route, Gating gating = Gating::silu);
ggml_tensor * pack_places(ggml_context * ctx, ggml_tensor * y, ggml_tensor * route);

// w [K, M, X] -> [M, places]
ggml_tensor * mul_routed(ggml_context * ctx, ggml_tensor * w, ggml_tensor * packed, ggml_tensor * route);

// Σ weights · y over the slots of a row, in their order: y [M, places], weights [.., U, n] -> [M, n].
ggml_tensor * sum_routed(ggml_context * ctx, ggml_tensor * y, ggml_tensor * weights, ggml_tensor * route);

} // namespace buoy
