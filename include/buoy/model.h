#pragma once

#include "buoy/log.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

enum class AttentionKind { causal, full, block_causal };

const char * attention_kind_name(AttentionKind kind);

// What decoding needs to know about a model. Comes from GGUF keys, with defaults per architecture.
struct Traits {
    AttentionKind attention    = AttentionKind::causal;
    int32_t       block_length = 0;     // block_causal only; blocks are tiled from position 0
    bool          shift        = false; // row i predicts token i + 1 (true for every causal model)
    int32_t       mask_id      = -1;    // -1: no mask token, so no diffusion

    // as its authors decode it
    int32_t sub_block_length = 0;     // > 0: a block is written in parts of that many
    bool    even_steps       = false; // step i of n leaves masks · (n − i − 1) / n of all masks
    int32_t closing_id       = -1;    // >= 0: the last position of an answer holds this token from the beginning
    int32_t recommended_block_length =
        0; // > 0: answers are best written in blocks of that many; the attention stays as it is

    bool is_diffusion() const { return mask_id >= 0 && attention != AttentionKind::causal; }
};

// What a caller may ask about a loaded model, whichever engine runs it.
struct ModelInfo {
    std::string path;
    std::string arch;            // general.architecture
    std::string name;            // general.name, may be empty
    int32_t     n_vocab     = 0; // V: rows of the LM head, may exceed the tokenizer's
    int32_t     n_embd      = 0; // E
    int32_t     n_layer     = 0; // L
    int32_t     n_head      = 0; // H
    int32_t     n_head_kv   = 0; // Hkv
    int32_t     head_dim    = 0; // D
    int32_t     n_ctx_train = 0;
    uint64_t    n_bytes     = 0; // size of the weights
    Traits      traits;
};

// Quantised weights on a CPU: as they are, or as F16, which takes more memory and is faster than ggml's quantised products.
enum class Unpack {
    off,
    f16,
    automatic, // F16 for a diffusion model's weights that we have no kernel of our own for, if that needs at most half of the
               // free memory and no GPU is in use
};

// The weights whose names a regular expression finds go to that device ("CPU" for the CPU), whatever layer they belong to.
struct TensorOverride {
    std::string pattern;
    std::string device;
};

struct ModelParams {
    std::string path;
    bool        use_mmap    = true;
    bool        use_repack  = true; // the CPU backend's interleaved weight layouts, where they help
    bool        use_kernels = true; // our own CPU matrix products and attention, where they help
    Unpack      unpack      = Unpack::off;

    // what goes to a GPU, or to another machine's device
    int32_t                     n_gpu_layers = -1; // layers, counted from the last; -1: as many as fit
    std::vector<std::string>    devices;           // names as list_devices() gives them; empty: every GPU
    int32_t                     main_gpu = -1;     // >= 0: the only one of the devices to be used
    std::vector<float>          tensor_split;      // a share of the layers for each device; empty: by free memory
    std::vector<TensorOverride> overrides;         // the first that finds a name counts
    int32_t                     n_cpu_moe = 0;     // the experts of the first n layers stay on the CPU

    LogCallback      log;
    ProgressCallback progress;
};

} // namespace buoy
