#pragma once

#include <ggml-cpp.h>

#include <cstdint>
#include <vector>

namespace buoy {

// The logits that a pass leaves for the condition of the sequence's next one, in F32 on the CPU. Memory is taken when it is first needed.
class LogitStore {
public:
    LogitStore(int64_t n_vocab, int32_t n_sequences)
        : n_vocab_(n_vocab), sequences_(static_cast<size_t>(n_sequences)) {}

    // Room for that many rows. True: what was there is gone, and its address has changed.
    bool   ensure_memory(int32_t sequence, int64_t n_rows);
    size_t n_bytes() const;

    // How many rows a sequence has kept; they stay valid until the next pass that keeps some.
    int64_t n_kept(int32_t sequence) const { return of(sequence).n_kept; }
    void    set_kept(int32_t sequence, int64_t n) { of(sequence).n_kept = n; }

    // The first n rows [V, n].
    ggml_tensor * rows(ggml_context * ctx, int32_t sequence, int64_t n) const;
    void          write(int32_t sequence, const std::vector<float> & logits);

private:
    struct Sequence {
        ggml_context_ptr        ctx;
        ggml_backend_buffer_ptr buffer;
        ggml_tensor *           tensor = nullptr; // [V, rows]
        int64_t                 n_kept = 0;
    };

    const Sequence & of(int32_t sequence) const { return sequences_[static_cast<size_t>(sequence)]; }
    Sequence &       of(int32_t sequence) { return sequences_[static_cast<size_t>(sequence)]; }

    int64_t               n_vocab_;
    std::vector<Sequence> sequences_;
};

} // namespace buoy
