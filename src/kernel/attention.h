#pragma once

#include <ggml.h>

namespace buoy {

// Whether attend has a kernel for such keys and values on this processor.
bool can_attend(ggml_type type_k, ggml_type type_v, int64_t head_dim);

// Softmax attention in single precision, scores times scale. q [D, Tq, H, S], k and v [D, K, Hkv, S] (F32, F16, Q8_0), mask f16 [K, Tq or more] or
// null, any strides -> [D·H, Tq·S].
ggml_tensor * attend(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * mask,
                     float scale);

// What of an attention's weights is wanted.
enum class PatternShape {
    whole,    // [K, rows, heads, S]
    heads,    // their mean over heads [K, rows, 1, S]
    received, // their mean over rows  [K, 1, heads, S]
};

// The weights of the same attention. chosen: i32 [rows, heads, S], the queries wanted as (s·H + head)·Tq + row; null: all.
ggml_tensor * attention_weights(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * mask, float scale,
                                ggml_tensor * chosen, PatternShape shape);

} // namespace buoy
