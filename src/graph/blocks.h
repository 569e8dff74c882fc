#pragma once

#include <cstdint>

struct ggml_tensor;

namespace buoy {

class Graph;

// The halves most decoder blocks are made of, residual connection included: [E, T·S] -> [E, T·S].
ggml_tensor * self_attention(Graph & g, int32_t il, ggml_tensor * x);
ggml_tensor * swiglu_ffn(Graph & g, int32_t il, ggml_tensor * x);

} // namespace buoy
