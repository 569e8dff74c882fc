#pragma once

#include "buoy/log.h"
#include "buoy/vocab.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

enum class AttentionKind { causal, full, block_causal };

const char * attention_kind_name(AttentionKind kind);

// Of a model whose weights can do both.
enum class ModelMode {
    diffusion,
    ar, // autoregressive
};

// How a model that writes canvases recommends to decode them (DiffusionGemma's entropy-bound sampler).
struct CanvasDefaults {
    int32_t steps                = 48;  // at most, of each canvas
    double  t_min                = 0.4; // temperatures
    double  t_max                = 0.8;
    double  entropy_bound        = 0.1;
    int32_t stability_threshold  = 1;
    double  confidence_threshold = 0.005;
    int32_t pad_id               = 0; // follows the end of a text
};

// What decoding needs to know about a model. Comes from GGUF keys, with defaults per architecture.
struct Traits {
    AttentionKind attention    = AttentionKind::causal;
    int32_t       block_length = 0;     // block_causal only; blocks are tiled from position 0
    bool          shift        = false; // row i predicts token i + 1 (true for every causal model)
    int32_t       mask_id      = -1;    // -1: no mask token, so no diffusion, unless it writes canvases
    int32_t canvas_length = 0; // > 0: it reads a prompt causally and writes canvases of that many tokens behind it,
                               // which begin as random ones (DiffusionGemma)
    CanvasDefaults canvas;

    // as its authors decode it
    int32_t sub_block_length = 0;     // > 0: a block is written in parts of that many
    bool    even_steps       = false; // step i of n leaves masks · (n − i − 1) / n of all masks
    int32_t closing_id       = -1;    // >= 0: the last position of an answer holds this token from the beginning
    int32_t recommended_block_length =
        0;                        // > 0: answers are best written in blocks of that many; the attention stays as it is
    bool    exact_blocks = false; // block_causal: the last block may be short, a block's steps are for its masks
    bool    two_modes = false; // it reads a prompt causally and writes blocks both ways behind it; or is autoregressive
    int32_t delete_id = -1;    // >= 0: a token that takes its position out of the block (LLaDA2.2)
    int32_t split_id  = -1;    // >= 0: a token that puts a mask before what its position holds

    bool writes_canvases() const { return canvas_length > 0 && attention != AttentionKind::causal; }
    bool is_diffusion() const { return writes_canvases() || (mask_id >= 0 && attention != AttentionKind::causal); }
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

// Whose CPU kernels compute matrix products, attention and summaries.
enum class Kernels {
    automatic, // for products those that were measured to be faster with this processor, type of weights and number of rows
    ours,      // wherever there is one
    ggml,
};

// The weights whose names a regular expression finds go to that device ("CPU" for the CPU), whatever layer they belong to.
struct TensorOverride {
    std::string pattern;
    std::string device;
};

struct ModelParams {
    bool                     use_mmap   = true;
    bool                     use_repack = true; // the CPU backend's interleaved weight layouts, where they help
    Kernels                  kernels    = Kernels::automatic;
    Unpack                   unpack     = Unpack::off;
    int32_t                  n_threads  = 0; // for what is converted while loading; 0: one per core
    std::optional<ModelMode> mode; // an error where the model has only the other; left open: diffusion if it has both
    bool                     force_causal = false; // autoregressive, whatever the file says or leaves open

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

enum class FlashAttention { off, on, automatic };

enum class KvType { f32, f16, q8_0 };

struct ContextParams {
    int32_t n_ctx       = 0; // positions of each sequence's K/V; -1: the model's training length; 0: that, at most 4096
    int32_t n_sequences = 1; // that have K/V of their own (two for classifier-free guidance)
    int32_t n_threads   = 0; // 0: as many as a pass is worth, one per core at most
    FlashAttention flash  = FlashAttention::automatic;
    KvType         type_k = KvType::f16;
    KvType         type_v = KvType::f16;
};

struct PlacedWeight {
    std::string name; // as the file has it; a matrix that is used in two ways may be there twice
    std::string device;
    size_t      n_bytes = 0;
};

class GgufFile;
class Context;

// A GGUF file, opened once: its header is read and checked, its weights are not touched yet.
class ModelFile {
public:
    ModelFile(const std::string & path); // NOLINT: a path is a file

    const std::string & path() const { return path_; }
    const GgufFile &    gguf() const { return *file_; }
    Vocab               vocab() const; // its tokenizer and chat template

private:
    std::string                     path_;
    std::shared_ptr<const GgufFile> file_;
};

// Weights and vocabulary: read-only, shared by any number of contexts in any number of threads.
class Model : public std::enable_shared_from_this<Model> {
public:
    virtual ~Model() = default;

    virtual const ModelInfo & info() const = 0;

    virtual const Vocab & vocab() const = 0; // read from the file when it is first asked for

    // Is AttentionEdit something its contexts do?
    virtual bool can_edit() const = 0;

    virtual std::unique_ptr<Context> make_context(const ContextParams & params) const = 0;
};

// An error where the model's contexts edit nothing, known before a pass that has edits.
void check_can_edit(const Model & model);

// By our own graphs where we know the architecture, by libllama's otherwise. planned: the context that is meant to run it, which decides
// what fits on a device.
std::shared_ptr<const Model> load_model(const ModelFile & file, const ModelParams & params,
                                        const ContextParams & planned = {});

// By libllama: any architecture it knows, full or causal attention only, one sequence at a time.
std::shared_ptr<const Model> load_llama_model(const ModelFile & file, const ModelParams & params,
                                              const ContextParams & planned = {});

} // namespace buoy
