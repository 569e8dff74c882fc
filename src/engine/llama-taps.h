#pragma once

#include "buoy/context.h"

#include <ggml.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace buoy {

// Collects activations from libllama's graph through its eval callback, by the names that libllama gives its nodes. All but the
// residual stream exist only without flash attention.
class LlamaTaps {
public:
    // rope_interleaved: the file's heads have the two halves that RoPE rotates together as neighbours, for the first n_rot
    // dimensions; the checkpoint's own order, which taps show, has them one after the other.
    LlamaTaps(bool rope_interleaved, int32_t n_rot) : rope_interleaved_(rope_interleaved), n_rot_(n_rot) {}

    // A pass over n_rows tokens [T] from a position on against n_keys keys [K] begins; it may be computed in several chunks of
    // rows. The request must live until the pass ends.
    void begin(const ForwardRequest & request, int32_t position_first, int64_t n_rows, int64_t n_keys);
    void begin_chunk(int64_t row_first, int64_t n_rows);
    void end_chunk() const; // throws what went wrong while observing

    // Hands over what was not: all of a pass in chunks. Throws for a tap that the architecture does not have.
    void end();

    static bool on_node(ggml_tensor * node, bool ask, void * self);

private:
    struct Wish {
        size_t    observer;
        TapReduce reduce;

        bool operator==(const Wish & other) const = default;
    };
    struct Record {
        Tap                    tap;
        int32_t                layer;
        std::vector<Wish>      wishes;
        std::array<int64_t, 3> shape{};
        std::vector<float>     data; // empty until seen
        bool                   delivered = false;
    };
    enum class Node { other, scores, soft_max, context, block_out };

    static Node name_node(const std::string & name, int32_t & layer);

    Record * find(Tap tap, int32_t layer);
    bool     wants(Node node, int32_t layer);
    void     observe(Node node, int32_t layer, const ggml_tensor * tensor);
    void     take(Record & record, const ggml_tensor * tensor);
    void     deliver(Record & record);
    void     start(Record & record, int64_t outer, int64_t middle, int64_t inner) const;

    void take_raw_scores(const ggml_tensor * scores);
    void take_heads(Record & record, const ggml_tensor * heads, bool rows_are_keys);
    void take_values(Record & record, const ggml_tensor * values);
    void take_pattern(Record & record, const ggml_tensor * pattern);
    void take_scores(Record & record, const ggml_tensor * soft_max);
    void take_residual(Record & record, const ggml_tensor * residual);

    bool                   rope_interleaved_;
    int32_t                n_rot_;
    std::vector<Record>    records_;
    const ForwardRequest * request_        = nullptr;
    int32_t                position_first_ = 0;
    int64_t                n_rows_         = 0;
    int64_t                n_keys_         = 0;
    int64_t                chunk_first_    = 0;
    int64_t                chunk_n_rows_   = 0;
    std::vector<float>     raw_scores_; // of the layer being computed, softmax may overwrite them in place
    std::exception_ptr     error_;
};

} // namespace buoy
