#pragma once

#include "buoy/context.h"

#include <ggml-cpp.h>

#include <cstdint>
#include <vector>

namespace buoy {

struct HParams;

ggml_type kv_ggml_type(KvType type);

// Keys and values by position: cell p of stream s holds position p. Which cells hold something is known on the host.
// Memory is taken when it is first needed: decoding without a cache never does.
class KvStore {
public:
    // devices: of each layer's attention
    KvStore(const HParams & hp, const std::vector<ggml_backend_dev_t> & devices, const ContextParams & params,
            int32_t n_ctx);

    int32_t n_ctx() const { return n_ctx_; }
    size_t  n_bytes() const;

    void ensure_memory();

    bool    is_filled(int32_t position) const { return filled_[static_cast<size_t>(position)]; }
    int32_t length() const { return length_; }                           // one past the last filled cell
    int32_t n_filled_with(const std::vector<int32_t> & positions) const; // cells that hold something once these do
    void    fill(const std::vector<int32_t> & positions);
    void    truncate(int32_t first);

    ggml_tensor * k(int32_t il) const { return k_[static_cast<size_t>(il)]; } // [Hkv·D, n_ctx, S]
    ggml_tensor * v(int32_t il) const { return v_[static_cast<size_t>(il)]; }

    // x [D, Hkv, T·S] into the given cells, i64 [T].
    ggml_tensor * write(ggml_context * ctx, ggml_tensor * cells_of, ggml_tensor * x, ggml_tensor * cells) const;
    // The first n_kv cells as [D, n_kv, Hkv, S].
    ggml_tensor * read(ggml_context * ctx, ggml_tensor * cells_of, int64_t n_kv) const;

private:
    int64_t                                                      head_dim_;
    int64_t                                                      n_head_kv_;
    int32_t                                                      n_ctx_;
    int32_t                                                      length_   = 0;
    int32_t                                                      n_filled_ = 0;
    std::vector<bool>                                            filled_;
    std::vector<ggml_tensor *>                                   k_, v_;
    std::vector<std::pair<ggml_backend_dev_t, ggml_context_ptr>> contexts_;
    std::vector<ggml_backend_buffer_ptr>                         buffers_;
};

} // namespace buoy
