#pragma once

#include <ggml-cpp.h>

#include <array>
#include <cstdint>
#include <vector>

namespace buoy {

struct HParams;

// What passes that choose their rows keep by layer and position besides keys and values, in F32. Memory is taken when it is first needed.
class RowStore {
public:
    enum class Kind {
        input, // of a layer [E]
        query, // after RoPE [D·H]
        added, // by a layer to the residual stream [E]
    };

    // devices: of each layer's attention
    RowStore(const HParams & hp, std::vector<ggml_backend_dev_t> devices, int32_t n_ctx, int32_t n_sequences);

    void   ensure_memory(Kind kind);
    size_t n_bytes() const;

    // [width, cells of all sequences]
    ggml_tensor * all(Kind kind, int32_t il) const {
        return kinds_[static_cast<size_t>(kind)].layers[static_cast<size_t>(il)];
    }
    // Positions 0 … n-1 of a sequence.
    ggml_tensor * rows(ggml_context * ctx, Kind kind, int32_t il, int32_t sequence, int64_t n) const;

    // Positions from the beginning that a sequence's rows of all kinds there are hold.
    int32_t length(int32_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
    void    set_length(int32_t sequence, int32_t n) { lengths_[static_cast<size_t>(sequence)] = n; }

private:
    struct Rows {
        std::vector<ggml_context_ptr>        contexts;
        std::vector<ggml_backend_buffer_ptr> buffers;
        std::vector<ggml_tensor *>           layers;
    };

    int64_t width(Kind kind, int32_t il) const;

    const HParams &                 hp_;
    std::vector<ggml_backend_dev_t> devices_;
    int32_t                         n_ctx_;
    std::vector<int32_t>            lengths_; // by sequence
    std::array<Rows, 3>             kinds_;
};

} // namespace buoy
