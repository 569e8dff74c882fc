#pragma once

#include <vector>

struct ggml_tensor;

namespace buoy {

// A matrix with what may come with it: y = w·x · scale + bias. Absent parts are null.
struct Linear {
    ggml_tensor * w     = nullptr; // [in, out]
    ggml_tensor * bias  = nullptr; // [out]
    ggml_tensor * scale = nullptr; // [1], per-tensor scale of the NVFP4 kind
};

// A mixture of experts in the place of an FFN. Matrices of all experts lie behind each other.
struct ExpertWeights {
    ggml_tensor * router      = nullptr; // [E, X]; null: the layer has an ordinary FFN
    ggml_tensor * select_bias = nullptr; // [X], added to the scores when experts are chosen, not to their weights
    ggml_tensor * gate        = nullptr; // [E, F, X]
    ggml_tensor * up          = nullptr; // [E, F, X]
    ggml_tensor * down        = nullptr; // [F, E, X]
};

// One decoder block. An architecture fills what it has; the rest stays null.
struct LayerWeights {
    ggml_tensor * attn_norm = nullptr;    // [E]
    Linear        q, k, v;                // E -> H·D, Hkv·D, Hkv·D
    Linear        o;                      // H·D -> E
    ggml_tensor * q_norm       = nullptr; // [D], per-head norm before RoPE
    ggml_tensor * k_norm       = nullptr; // [D]
    ggml_tensor * rope_factors = nullptr; // [D/2], Llama-3 style frequency divisors

    ggml_tensor * ffn_norm = nullptr; // [E]
    Linear        gate, up, down;     // E -> F, E -> F, F -> E; beside experts: the shared ones, if any
    ExpertWeights experts;
};

struct Weights {
    ggml_tensor *             embed       = nullptr; // [E, V]
    ggml_tensor *             output_norm = nullptr; // [E]
    Linear                    output;                // E -> V
    std::vector<LayerWeights> layers;
};

} // namespace buoy
