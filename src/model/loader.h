#pragma once

#include "io/gguf-file.h"
#include "kernel/choice.h"
#include "model/placement.h"
#include "model/weight-source.h"

#include <ggml-cpp.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace buoy {

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
class WeightLoader : public WeightSource {
public:
    // unpack: quantised matrices become F16, unless our kernels read them as they are
    WeightLoader(const GgufFile & file, const Placement & placement, const ModelParams & params, bool unpack,
                 const KernelChoice & products);

    // Throws where a required tensor is missing, or one has another shape or a type that does not fit its use.
    ggml_tensor * get(const WeightSpec & spec) override;
    bool          has(const std::string & name, Presence presence) const override;
    Linear part(const std::string & base, int64_t n_in, int64_t n_rows, const Part & part, int32_t layer) override;

    // Allocates and reads everything declared so far. Progress is told after every tensor that had to be copied.
    WeightMemory load(const ProgressCallback & progress);

    // For each type of weights declared so far, whose kernels multiply with them.
    const std::set<std::string> & product_texts() const { return product_texts_; }

private:
    struct Pending {
        ggml_tensor *      tensor;
        const GgufTensor * source;
        uint64_t           skip; // bytes into the source: a part of a fused tensor
    };
    using Key = std::tuple<const GgufTensor *, uint64_t, ggml_backend_buffer_type_t, ggml_type>;

    const GgufTensor * look_up(const WeightSpec & spec) const; // null: missing
    ggml_tensor * declare(const GgufTensor * source, uint64_t skip, const std::vector<int64_t> & shape, WeightUse use,
                          int32_t il);
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
    const KernelChoice &                                       products_;
    int                                                        n_threads_;
    std::map<ggml_backend_buffer_type_t, ggml_context_ptr>     contexts_;
    std::map<ggml_backend_buffer_type_t, std::vector<Pending>> pending_;
    std::map<Key, ggml_tensor *>                               declared_;
    std::set<std::string>                                      product_texts_;
};

} // namespace buoy
