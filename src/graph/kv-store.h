#pragma once

#include "buoy/context.h"

#include <ggml-cpp.h>

#include <cstdint>
#include <vector>

namespace buoy {

struct HParams;

ggml_type kv_ggml_type(KvType type);

// Keys and values by position: cell p of a sequence holds position p. Which cells hold something is known on the host.
// Memory is taken when it is first needed: decoding without a cache never does.
class KvStore {
public:
    // devices: of each layer's attention
    KvStore(const HParams & hp, const std::vector<ggml_backend_dev_t> & devices, const ContextParams & params,
            int32_t n_ctx);

    int32_t n_ctx() const { return n_ctx_; }
    int32_t n_sequences() const { return static_cast<int32_t>(sequences_.size()); }
    size_t  n_bytes() const;

    void ensure_memory();

    bool is_filled(int32_t sequence, int32_t position) const {
        return of(sequence).filled[static_cast<size_t>(position)];
    }
    int32_t length(int32_t sequence) const { return of(sequence).length; } // one past the last filled cell
    // Cells that hold something once these do.
    int32_t n_filled_with(int32_t sequence, const std::vector<int32_t> & positions) const;
    void    fill(int32_t sequence, const std::vector<int32_t> & positions);
    void    truncate(int32_t sequence, int32_t first);
    int64_t cell(int32_t sequence, int32_t position) const { return int64_t(sequence) * n_ctx_ + position; }

    // [D, cells, Hkv]: attention reads one head after the other, and memory is fastest in order
    ggml_tensor * k(int32_t il) const { return k_[static_cast<size_t>(il)]; }
    ggml_tensor * v(int32_t il) const { return v_[static_cast<size_t>(il)]; }

    // x [D, Hkv, n] into the given cells, i64 [n].
    ggml_tensor * write(ggml_context * ctx, ggml_tensor * cells_of, ggml_tensor * x, ggml_tensor * cells) const;
    // The first n_kv cells of a sequence as [D, n_kv, Hkv].
    ggml_tensor * read(ggml_context * ctx, ggml_tensor * cells_of, int32_t sequence, int64_t n_kv) const;

private:
    struct Sequence {
        int32_t           length   = 0;
        int32_t           n_filled = 0;
        std::vector<bool> filled;
    };

    const Sequence & of(int32_t sequence) const { return sequences_[static_cast<size_t>(sequence)]; }
    Sequence &       of(int32_t sequence) { return sequences_[static_cast<size_t>(sequence)]; }

    int32_t                                                      n_ctx_;
    std::vector<Sequence>                                        sequences_;
    std::vector<ggml_tensor *>                                   k_, v_;
    std::vector<std::pair<ggml_backend_dev_t, ggml_context_ptr>> contexts_;
    std::vector<ggml_backend_buffer_ptr>                         buffers_;
};

} // namespace buoy
