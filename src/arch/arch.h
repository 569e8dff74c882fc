#pragma once

#include "graph/blocks.h"
#include "model/hparams.h"
#include "model/weights.h"

#include <string>
#include <vector>

namespace buoy {

class Graph;
class WeightLoader;

// One architecture: what it assumes, which tensors it has, and the parts of its block.
// Embedding, the loop over blocks and the LM head are common to all (graph/graph.cpp).
struct Arch {
    const char * name;
    ArchDefaults defaults;

    void (*load_layer)(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer);

    // Keys and values are made of all rows; queries and FFN of those somebody needs, which may come in several pieces.
    KeysValues (*keys)(Graph & g, int32_t il, ggml_tensor * x);
    ggml_tensor * (*queries)(Graph & g, int32_t il, ggml_tensor * x, const KeysValues & kv);
    ggml_tensor * (*ffn)(Graph & g, int32_t il, ggml_tensor * x);
};

extern const Arch arch_llada;
extern const Arch arch_dream;
extern const Arch arch_llama;
extern const Arch arch_qwen2;
extern const Arch arch_qwen3;
extern const Arch arch_qwen3moe;
extern const Arch arch_sdar;
extern const Arch arch_sdar_moe;
extern const Arch arch_fast_dllm_v2;
extern const Arch arch_llada_moe;
extern const Arch arch_llada2;
extern const Arch arch_rnd1;

// Null where the name is not ours.
const Arch * find_arch(const std::string & name);

std::vector<std::string> arch_names();

} // namespace buoy
