#pragma once

#include "hf-config.h"

#include <string>
#include <vector>

// How an architecture's checkpoint maps to GGUF, as a table. One file per architecture in arch/.

namespace buoy {

// Sizes a tensor's shape is made of; none ends the shape.
enum class Dim { none, vocab, embd, ff, q, kv, head };

// What happens to the rows on the way. Where ggml's RoPE pairs neighbouring rows (NORM), the halves that Hugging Face
// pairs (rotate-half) are interleaved within each head.
enum class Reorder { none, interleave_q, interleave_k };

enum class Need { required, optional };

struct TensorRule {
    const char * source; // "{}" is the layer
    const char * target;
    Dim          rows    = Dim::none;
    Dim          cols    = Dim::none; // none: one-dimensional
    Reorder      reorder = Reorder::none;
    Need         need    = Need::required;
};

struct ArchMapping {
    const char *              arch;      // general.architecture
    std::vector<const char *> hf_names;  // architectures[0]
    const char *              embedding; // source name of the token embedding [vocab, embd]
    const char *              head;      // source name of the LM head, same shape
    std::vector<TensorRule>   tensors;

    bool diffusion = false; // attention is not causal
    bool shift     = false; // diffusion.shift_logits: row i predicts token i + 1

    // Refuses settings of the config that the GGUF architecture can't express.
    void (*check)(const HfJson & config) = nullptr;
};

ArchMapping llada_mapping();
ArchMapping dream_mapping();
ArchMapping llama_mapping();
ArchMapping qwen2_mapping();
ArchMapping qwen3_mapping();

// By architectures[0]; an unknown one is an Error that lists the known.
ArchMapping find_mapping(const HfJson & config);

// The rules that llama, qwen2, qwen3 and dream share: `model.layers.{}.…` with SwiGLU.
std::vector<TensorRule> transformer_rules(Reorder reorder_q, Reorder reorder_k);
// Their q, k and v biases.
std::vector<TensorRule> qkv_bias_rules(Reorder reorder_q, Reorder reorder_k, Need need);

void append(std::vector<TensorRule> & rules, const std::vector<TensorRule> & more);

// For `check`: the key, if present, must have this value.
void expect_setting(const HfJson & config, const char * key, const nlohmann::json & expected);

} // namespace buoy
