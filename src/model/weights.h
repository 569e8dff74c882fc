#pragma once

#include <map>
#include <string>
#include <vector>

struct ggml_tensor;

namespace buoy {

// A matrix with what may come with it: y = w·x · scale + bias. Absent parts are null.
struct Linear {
    ggml_tensor * w     = nullptr; // [in, out]
    ggml_tensor * bias  = nullptr; // [out]
    ggml_tensor * scale = nullptr; // [1], per-tensor scale of the NVFP4 kind
};

// What a norm multiplies and adds afterwards. Absent parts are null.
struct Norm {
    ggml_tensor * w    = nullptr; // [n]
    ggml_tensor * bias = nullptr; // [n]
};

// A mixture of experts in the place of an FFN. Matrices of all experts lie behind each other.
struct ExpertWeights {
    ggml_tensor * router      = nullptr; // [E, X]; null: the layer has an ordinary FFN
    ggml_tensor * select_bias = nullptr; // [X], added to the scores when experts are chosen, not to their weights
    ggml_tensor * gate        = nullptr; // [E, F, X]
    ggml_tensor * up          = nullptr; // [E, F, X]
    ggml_tensor * gate_up     = nullptr; // [E, 2F, X], in place of the two
    ggml_tensor * down        = nullptr; // [F, E, X]
    ggml_tensor * out_scale   = nullptr; // [X], of what an expert adds
    ggml_tensor * route_scale = nullptr; // [E], of the router's input

    ggml_tensor * gates() const { return gate_up != nullptr ? gate_up : gate; }
};

// One decoder block. An architecture fills what it has; the rest stays null.
struct LayerWeights {
    Norm          attn_norm;              // [E]
    Linear        q, k, v;                // E -> H·D, Hkv·D, Hkv·D
    Linear        o;                      // H·D -> E
    Norm          q_norm, k_norm;         // [D], per head, before RoPE
    Norm          attn_post_norm;         // [E], of what attention adds
    ggml_tensor * rope_factors = nullptr; // [D/2], Llama-3 style frequency divisors

    Norm          ffn_norm;       // [E]
    Linear        gate, up, down; // E -> F, E -> F, F -> E; beside experts: the shared ones, if any
    ExpertWeights experts;
    Norm          ffn_post_norm;            // [E], of what the FFN adds
    Norm          dense_post_norm;          // [E], of a dense FFN beside experts alone
    Norm          expert_norm;              // [E], of what experts get, where that is their own
    Norm          expert_post_norm;         // [E], of what they add
    ggml_tensor * out_scale      = nullptr; // [1], of what leaves the block
    ggml_tensor * out_scale_read = nullptr; // [1], the same in causal passes of a model that writes canvases
};

struct Weights {
    ggml_tensor *                        embed = nullptr; // [E, V]
    Norm                                 output_norm;     // [E]
    Linear                               output;          // E -> V
    std::vector<LayerWeights>            layers;
    std::map<std::string, ggml_tensor *> others; // an architecture's own, by name
};

} // namespace buoy
