#pragma once

#include <cstdint>

struct ggml_tensor;

namespace buoy {

class Graph;

// The parts most decoder blocks are made of. x is the residual stream, [E, n].
struct KeysValues {
    ggml_tensor * k = nullptr; // [D, Hkv, n], rotated
    ggml_tensor * v = nullptr; // [D, Hkv, n]
    ggml_tensor * h = nullptr; // [E, n], the normed rows they were made of; null where the queries' rows are others
};

KeysValues    attention_keys(Graph & g, int32_t il, ggml_tensor * x);
ggml_tensor * attention_queries(Graph & g, int32_t il, ggml_tensor * x, const KeysValues & kv); // residual included
ggml_tensor * swiglu_ffn(Graph & g, int32_t il, ggml_tensor * x);                               // residual included
ggml_tensor * expert_ffn(Graph & g, int32_t il, ggml_tensor * x); // the same where the layer has no experts

} // namespace buoy
