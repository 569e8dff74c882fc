#pragma once

#include "arch/arch.h"
#include "buoy/context.h"

#include <ggml-cpp.h>

#include <cstdint>
#include <vector>

// Letters: T tokens, Tq query rows, K keys, R rows asked for, S streams, E width, H/Hkv heads, D head dimension, F ffn width,
// V vocabulary. Shapes in comments are ggml's, innermost dimension first. Streams lie behind each other: token t of
// stream s is column s·T + t.

namespace buoy {

class KvStore;
class Model;

// Everything that decides a graph's structure. Two requests with equal keys run the same graph.
struct GraphKey {
    int64_t               n_tokens  = 0;     // T
    int64_t               n_streams = 1;     // S
    int64_t               n_rows    = 0;     // R
    int64_t               n_kv      = 0;     // K
    bool                  all_rows  = false; // the rows asked for are 0 … T-1
    bool                  masked    = false;
    float                 cfg_scale = 0.0f;
    KvUse                 kv        = KvUse::none;
    OutputKind            output    = OutputKind::logits;
    std::vector<TapPoint> taps;
    int64_t               n_tap_heads = 0; // of a selection of heads or rows, which is an input; 0: all are tapped
    int64_t               n_tap_rows  = 0;
    int64_t               n_regions   = 0;
    std::vector<int32_t>  edited;                // layers, ascending
    std::vector<int32_t>  probed;                // those of them whose unedited pattern is looked at first
    bool                  edits_by_head = false; // heads may be edited differently

    bool operator==(const GraphKey & other) const;
    bool has_tap(Tap tap, int32_t layer) const; // reduced or not
    bool has_tap(const TapPoint & point) const;
    bool is_edited(int32_t layer) const;
    bool is_probed(int32_t layer) const;
};

// Tensors the engine fills before a run; those a graph does not need are null.
struct GraphInputs {
    ggml_tensor * tokens         = nullptr; // i32 [T·S]
    ggml_tensor * positions      = nullptr; // i32 [T·S]
    ggml_tensor * mask           = nullptr; // f16 [K, T], 0 or -inf
    ggml_tensor * rows           = nullptr; // i32 [R·S], columns of the rows asked for
    ggml_tensor * positions_rows = nullptr; // i32 [R·S]
    ggml_tensor * mask_rows      = nullptr; // f16 [K, R]
    ggml_tensor * cells          = nullptr; // i64 [T], where to store K and V
    ggml_tensor * tap_rows       = nullptr; // i32 [rows·heads·S], rows of a pattern seen as [K, T·H·S]
    ggml_tensor * region_keys    = nullptr; // [K, regions], 1 where a key belongs to a region
    ggml_tensor * region_rows    = nullptr; // [tapped rows, regions], the same for queries
};

// Tensors the engine reads after a run.
struct GraphOutputs {
    ggml_tensor * logits     = nullptr; // [V, R·S]
    ggml_tensor * top_ids    = nullptr; // i32 [2, R·S], the two largest, in any order
    ggml_tensor * top_logits = nullptr; // [1, 2, R·S]
    ggml_tensor * top_probs  = nullptr; // [1, 2, R·S]
    ggml_tensor * mean_logit = nullptr; // [1, R·S], the logits' expectation under their softmax
    ggml_tensor * summaries  = nullptr; // i32 [5, R·S], finished RowSummary in place of the four above
};

struct TapNode {
    TapPoint      point;
    ggml_tensor * tensor;
    ggml_tensor * ready; // the tensor is read once this node was computed, which may be a later one
};

// An edited layer's softmax takes a mask that the host writes once the node `ready` was computed.
struct EditNode {
    int32_t       layer    = 0;
    ggml_tensor * ready    = nullptr;
    ggml_tensor * received = nullptr; // [K, 1, H, S] of the unedited pattern; null where nobody asked
    ggml_tensor * mask     = nullptr; // [K, Tq, H or 1], of all edited layers of a device
    ggml_tensor * pattern  = nullptr; // [K, Tq, H, S]
};

// A node that shares memory with others of its layer, so it must be computed on the layer's device.
struct PinnedNode {
    int32_t       layer;
    ggml_tensor * tensor;
};

// One forward pass as a ggml graph. Architectures call the building blocks; the constructor calls the architecture.
class Graph {
public:
    // flash: per layer, whether the fused attention is to be used.
    Graph(const Model & model, const GraphKey & key, KvStore * store, const std::vector<bool> & flash);

    static size_t node_limit(const HParams & hp);

    const GraphKey &              key() const { return key_; }
    const GraphInputs &           inputs() const { return inputs_; }
    const GraphOutputs &          outputs() const { return outputs_; }
    const std::vector<TapNode> &  taps() const { return taps_; }
    const std::vector<EditNode> & edits() const { return edits_; }
    ggml_cgraph *                 cgraph() const { return graph_; }
    int64_t                       n_query_rows(int32_t il) const; // Tq·S

    const std::vector<PinnedNode> & pinned() const { return pinned_; }

    // Building blocks.
    const LayerWeights & layer(int32_t il) const;
    ggml_tensor *        rms_norm(ggml_tensor * x, ggml_tensor * weight);
    ggml_tensor *        linear(const Linear & part, ggml_tensor * x);
    ggml_tensor *        add(ggml_tensor * a, ggml_tensor * b);
    ggml_tensor *        swiglu(const Linear & gate, const Linear & up, ggml_tensor * x); // silu(gate·x) · (up·x)
    ggml_tensor *        heads(ggml_tensor * x);            // [n·D, T·S] -> [D, n, T·S]
    ggml_tensor *        rope(int32_t il, ggml_tensor * x); // at the positions of the rows being built

    // The chosen experts' outputs, weighted (moe.cpp). h [E, n] -> [E, n]
    ggml_tensor * experts(const ExpertWeights & w, ggml_tensor * h);

    // q [D, H, n] against the keys given or stored -> [H·D, n]
    ggml_tensor * attention(int32_t il, ggml_tensor * q, const KeysValues & kv);

private:
    // What was packed last, for several products with the same rows.
    struct Packed {
        ggml_tensor * rows   = nullptr;
        ggml_tensor * packed = nullptr;
    };

    // The rows being built: all of a pass, those asked for in the last layer, or a piece of them.
    struct Rows {
        ggml_tensor * positions = nullptr; // i32 [n]
        ggml_tensor * mask      = nullptr; // f16 [K, n per stream or more], null where nothing is hidden
        ggml_tensor * cells     = nullptr; // i64 [n]
    };

    ggml_tensor * choose_experts(ggml_tensor * scores);
    bool          rows_restricted(int32_t il) const;
    bool          is_watched(int32_t il) const; // tapped or edited
    void          make_inputs();
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, const char * name);
    bool          is_packed(const ggml_tensor * w, const ggml_tensor * x) const;
    ggml_tensor * packed(ggml_tensor * x);
    KeysValues    build_keys(int32_t il, ggml_tensor * x);
    ggml_tensor * build_queries(int32_t il, ggml_tensor * x, KeysValues kv);
    ggml_tensor * own_rows(int32_t il, ggml_tensor * x);
    void          enter(const Rows & rows, int64_t first, int64_t n, int64_t n_all);
    int64_t       piece_size(int32_t il, int64_t n) const;
    int64_t       tile_rows(int64_t n) const;
    ggml_tensor * attention_pattern(int32_t il, ggml_tensor * q, ggml_tensor * k, bool shown);
    ggml_tensor * mix(ggml_tensor * pattern, ggml_tensor * v); // -> [H·D, n]
    ggml_tensor * flash_attention(ggml_tensor * q, ggml_tensor * k, ggml_tensor * v);
    ggml_tensor * by_head(ggml_tensor * x); // [D, n, T·S] -> [D, T, n, S]
    ggml_tensor * edited_pattern(int32_t il, ggml_tensor * scores);
    ggml_tensor * edit_mask(int32_t il);
    void          tap(const TapPoint & point, ggml_tensor * x);
    void          tap_copy(Tap kind, int32_t il, ggml_tensor * x);
    void          tap_pattern(int32_t il, ggml_tensor * pattern);
    void          tap_weights(int32_t il, ggml_tensor * q, ggml_tensor * k);
    ggml_tensor * tap_rows(int64_t n_streams);
    bool          use_kernels(const ggml_tensor * k, const ggml_tensor * v) const;
    void          expand_last(ggml_tensor * x);
    void          show_dropped_rows(int32_t il, ggml_tensor * x, const KeysValues & kv);
    ggml_tensor * selected(ggml_tensor * pattern);
    ggml_tensor * mean_over(int dim, ggml_tensor * x);
    ggml_tensor * region_sums(ggml_tensor * mean);
    void          build_head(ggml_tensor * x);
    void          build_summary();

    const Model &             model_;
    const HParams &           hp_;
    GraphKey                  key_;
    KvStore *                 store_;
    const std::vector<bool> & flash_;
    ggml_context_ptr          ctx_;
    ggml_cgraph *             graph_ = nullptr;
    GraphInputs               inputs_;
    GraphOutputs              outputs_;
    std::vector<TapNode>      taps_;
    std::vector<EditNode>     edits_;
    std::vector<PinnedNode>   pinned_;
    PinnedNode own_rows_{-1, nullptr}; // rows that pieces are written into, and the layer they were made for
    Rows       rows_;                  // being built
    bool       showing_      = false;  // rows that no result needs
    bool       flash_on_cpu_ = false;  // in some layer
    Packed     packed_;
};

} // namespace buoy
