#pragma once

#include "hf-config.h"
#include "io/gguf-writer.h"
#include "moe-config.h"

#include <string>
#include <vector>

// How an architecture's checkpoint maps to GGUF, as a table. One file per architecture in arch/.

namespace buoy {

// Sizes a tensor's shape is made of; none ends the shape.
enum class Dim { none, one, vocab, embd, ff, q, kv, qkv, head, expert, ff_expert, ff_expert_pair, ff_shared };

// What happens to the rows on the way. Where ggml's RoPE pairs neighbouring rows (NORM), the halves that Hugging Face
// pairs (rotate-half) are interleaved within each head.
enum class Reorder { none, interleave_q, interleave_k };

// refused: it would change the model, and GGUF has no place for it.
enum class Need { required, optional, refused };

// Where a per-layer rule applies: a mixture of experts may have ordinary layers as well, and some layers may see a window only.
enum class Layers { all, dense, sparse, sliding, global };

struct TensorRule {
    const char * source; // "{}" is the layer; "{x}" is an expert, all of which become one tensor
    const char * target;
    Dim          rows    = Dim::none;
    Dim          cols    = Dim::none; // none: one-dimensional
    Reorder      reorder = Reorder::none;
    Need         need    = Need::required;
    Layers       layers  = Layers::all;
    bool         stacked = false; // the checkpoint has all experts in one tensor, too: [experts, rows, cols]
};

struct ArchMapping {
    const char *              arch;      // general.architecture
    std::vector<const char *> hf_names;  // architectures[0]
    const char *              embedding; // source name of the token embedding [vocab, embd]
    const char *              head;      // source name of the LM head, same shape
    std::vector<TensorRule>   tensors;

    bool         diffusion       = false;   // attention is not causal
    bool         shift           = false;   // diffusion.shift_logits: row i predicts token i + 1
    const char * block_key       = nullptr; // the config's name for the length of a block, if attention is block-causal
    int64_t      block_length    = 0;       // where the config does not say; 0: attention is not block-causal
    const char * recommended_key = "recommended_block_length"; // the config's name for a length of blocks to write in
    int64_t      mask_id         = -1;                         // the release's, for checkpoints that name no mask token
    bool         mask            = true;                       // tokens are denoised from a mask token
    MoeDefaults  moe;

    std::vector<const char *> skipped = {}; // what tensors for something else than text begin with, after "model."

    bool has_experts() const;

    // Refuses settings of the config that the GGUF architecture can't express.
    void (*check)(const HfJson & config) = nullptr;
    // Reads what only this architecture has. generation: generation_config.json, or nothing.
    void (*read)(const HfJson & config, const HfJson & generation, HfParams & params) = nullptr;
    // Writes the model's keys, where they are not the usual ones.
    void (*set_keys)(GgufWriter & header, const HfParams & params) = nullptr;
};

// What others are made of.
ArchMapping llama_mapping();
ArchMapping qwen2_mapping();
ArchMapping qwen3_mapping();

// All of arch/. Each <name>.cpp there defines std::vector<ArchMapping> <name>_mappings(); the build makes the list of the files.
std::vector<ArchMapping> all_mappings();

// By architectures[0]; an unknown one is an Error that lists the known.
ArchMapping find_mapping(const HfJson & config);

// The rules that llama, qwen2, qwen3 and dream share: `model.layers.{}.…` with SwiGLU.
std::vector<TensorRule> transformer_rules(Reorder reorder_q, Reorder reorder_k);
// Their q, k and v biases.
std::vector<TensorRule> qkv_bias_rules(Reorder reorder_q, Reorder reorder_k, Need need);

// Norms of each head of q and k, and the bias of the output, if there is one: what Qwen3's attention has besides.
std::vector<TensorRule> qwen3_attention_rules();
// `model.layers.{}.mlp.{gate,experts.{x}.…}`, and `mlp.{gate,up,down}_proj` where a layer is ordinary.
std::vector<TensorRule> expert_rules();

void append(std::vector<TensorRule> & rules, const std::vector<TensorRule> & more);

// For `check`: the key, if present, must have this value.
void expect_setting(const HfJson & config, const char * key, const nlohmann::json & expected);

} // namespace buoy
