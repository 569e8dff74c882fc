#pragma once

#include "io/gguf-file.h"
#include "model/hparams.h"
#include "model/placement.h"
#include "model/weights.h"

#include <ggml-cpp.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace buoy {

// What a weight is used for decides which memory layouts are possible for it.
enum class WeightUse { lookup, matmul, experts, multiply, add, rope };

// Types that the CPU can multiply with; the rest are for ids, or what ggml quantises activations to.
bool is_matrix_type(ggml_type type);

// Memory that weights live in; freed together with the model.
struct WeightMemory {
    std::vector<ggml_context_ptr>        contexts;
    std::vector<FileMapping>             mappings; // buffers point into them
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<const ggml_tensor *>     tensors; // all of them
};

// Declares weights first (shapes are checked against the file), then brings all of them into memory.
class WeightLoader {
public:
    // unpack: quantised matrices become F16; use_packed: those that mul_packed reads are left as they are
    WeightLoader(const GgufFile & file, const Placement & placement, const ModelParams & params, bool unpack,
                 bool use_packed);

    // A %d in the name stands for the layer. Throws where the tensor is missing or has another shape.
    ggml_tensor * required(const char * name, std::initializer_list<int64_t> shape, WeightUse use, int32_t il);
    // Null where the tensor is missing.
    ggml_tensor * optional(const char * name, std::initializer_list<int64_t> shape, WeightUse use, int32_t il);

    // base + ".weight", and ".bias" and ".scale" where the file has them.
    Linear linear(const char * base, int64_t n_in, int64_t n_out, int32_t il);

    // The halves nearly every decoder block has, under upstream's names.
    void attention(int32_t il, const HParams & hp, LayerWeights & layer);
    void swiglu(int32_t il, const HParams & hp, LayerWeights & layer);
    void experts(int32_t il, const HParams & hp, LayerWeights & layer); // or an ordinary FFN, where the layer has one
    void head_norms(int32_t il, const HParams & hp, LayerWeights & layer);

    // Allocates and reads everything declared so far. Progress is told after every tensor that had to be copied.
    WeightMemory load(const ProgressCallback & progress);

private:
    struct Pending {
        ggml_tensor *      tensor;
        const GgufTensor * source;
        uint64_t           skip; // bytes into the source: a part of a fused tensor
    };
    using Key = std::tuple<const GgufTensor *, uint64_t, ggml_backend_buffer_type_t, ggml_type>;

    // The tensor of that name if the file has it; throws where its shape differs or its type does not fit the use.
    const GgufTensor * look_up(const std::string & name, const std::vector<int64_t> & shape, WeightUse use,
                               bool must) const;
    ggml_tensor * declare(const GgufTensor * source, uint64_t skip, const std::vector<int64_t> & shape, WeightUse use,
                          int32_t il);
    Linear        fused_part(int32_t il, int64_t n_in, int64_t n_out, int64_t row_first, int64_t row_count);
    ggml_backend_buffer_type_t choose_buffer(const std::string & name, const ggml_tensor * like, WeightUse use,
                                             int32_t il) const;
    ggml_context *             context(ggml_backend_buffer_type_t buft);
    void                       place_mapped(ggml_backend_buffer_type_t buft, WeightMemory & memory) const;
    void                       place_copied(ggml_backend_buffer_type_t buft, WeightMemory & memory,
                                            const std::function<void()> & on_tensor) const;

    const GgufFile &                                           file_;
    const Placement &                                          placement_;
    bool                                                       use_mmap_;
    bool                                                       use_repack_;
    bool                                                       unpack_;
    bool                                                       use_packed_;
    std::map<ggml_backend_buffer_type_t, ggml_context_ptr>     contexts_;
    std::map<ggml_backend_buffer_type_t, std::vector<Pending>> pending_;
    std::map<Key, ggml_tensor *>                               declared_;
};

// What load_layer is for a plain decoder, for one with norms of each head of Q and K (Qwen3), and for that with experts.
void load_dense_layer(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer);
void load_normed_layer(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer);
void load_expert_layer(WeightLoader & loader, const HParams & hp, int32_t il, LayerWeights & layer);

} // namespace buoy
