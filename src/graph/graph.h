#pragma once

#include "buoy/context.h"
#include "graph/graph-key.h"
#include "model/loaded-model.h"

#include <ggml-cpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

// Letters: N tokens of all sequences, T of one, Tq query rows, K keys, R rows asked for, E width, H/Hkv heads, D head dimension,
// F ffn width, V vocabulary. Shapes in comments are ggml's, innermost dimension first. Sequences lie behind each other.

namespace buoy {

class Graph;
class KvStore;
class LogitStore;
class RowStore;

// How an architecture computes. Each composes the building blocks of a graph.
struct GraphRecipe {
    ggml_tensor * (*embed)(Graph & g)                              = nullptr; // -> [E, N]; null: the embedding as it is
    ggml_tensor * (*block)(Graph & g, int32_t il, ggml_tensor * x) = nullptr; // [E, N] -> [E, N or rows needed]
    ggml_tensor * (*head)(Graph & g, ggml_tensor * x) = nullptr; // [E, n] -> [V, n]; null: norm and product
};

// Tensors that are filled before a run; those a graph does not need are null.
struct ObserverInputs {
    std::map<int64_t, ggml_tensor *>
                  tap_rows;              // by number of heads: i32 [rows·heads], rows of a pattern seen as [K, T·H]
    ggml_tensor * region_keys = nullptr; // [K, regions], 1 where a key belongs to a region
    ggml_tensor * region_rows = nullptr; // [tapped rows, regions], the same for queries
};

struct SequenceInputs {
    std::map<int32_t, ggml_tensor *> masks;               // by window: f16 [K, T], 0 or -inf
    std::map<int32_t, ggml_tensor *> masks_rows;          // f16 [K, R]
    ggml_tensor *                    condition = nullptr; // [1], what the logits of a condition are divided by
    ggml_tensor *                    draws     = nullptr; // [2, R], of each row temperature and number (RowDraw)
    std::vector<ObserverInputs>      observers;
};

struct GraphInputs {
    ggml_tensor *               tokens         = nullptr; // i32 [N]
    ggml_tensor *               positions      = nullptr; // i32 [N]
    ggml_tensor *               rows           = nullptr; // i32 [rows asked for], columns of them
    ggml_tensor *               positions_rows = nullptr; // i32, of the same
    ggml_tensor *               scales         = nullptr; // [1, N], what queries are scaled by
    ggml_tensor *               scales_rows    = nullptr; // of the rows asked for
    ggml_tensor *               cells          = nullptr; // i64 [N], where to store K and V
    ggml_tensor *               extra          = nullptr; // [E, N], an architecture's own
    ggml_tensor *               track_cells    = nullptr; // i32 [tracked positions], in the store
    ggml_tensor *               track_rows     = nullptr; // i32, the same as rows of the pass
    std::vector<SequenceInputs> sequences;
};

// Tensors that are read after a run: the output of sequences that lie behind each other.
struct GraphOutput {
    size_t        first      = 0;       // sequence
    size_t        last       = 0;       // one past
    ggml_tensor * logits     = nullptr; // [V, n]
    ggml_tensor * top_ids    = nullptr; // i32 [2, n], the two largest, in any order
    ggml_tensor * top_logits = nullptr; // [1, 2, n]
    ggml_tensor * top_probs  = nullptr; // [1, 2, n]
    ggml_tensor * mean_logit = nullptr; // [1, n], the logits' expectation under their softmax
    ggml_tensor * summaries  = nullptr; // i32, finished RowSummary in place of the four above
};

struct TapNode {
    size_t        sequence = 0;
    size_t        observer = 0;
    TapPoint      point;
    ggml_tensor * tensor = nullptr;
    ggml_tensor * ready  = nullptr; // the tensor is read once this node was computed, which may be a later one
    float         scale  = 1.0f;    // of raw scores
};

// An edited layer's softmax takes a mask that the host writes once the node `ready` was computed.
struct EditNode {
    size_t        sequence = 0;
    int32_t       layer    = 0;
    ggml_tensor * ready    = nullptr;
    ggml_tensor * received = nullptr; // [K, 1, H] of the unedited pattern; null where nobody asked
    ggml_tensor * mask     = nullptr; // [K, T, H or 1], of edited layers of a device that hide the same keys
    ggml_tensor * pattern  = nullptr; // [K, T, H]
};

// A product with a weight, for whoever observes what reaches it.
struct ProductNode {
    const ggml_tensor * weight = nullptr;
    const ggml_tensor * x      = nullptr; // [n_in, n], or by expert [n_in, experts used or 1, n]
    const ggml_tensor * ids    = nullptr; // i32 [experts used, n]; null: one matrix for all
    bool                needed = false;   // rows are those asked for
    const ggml_tensor * ready  = nullptr; // x is read once this was computed
};

// Positions that a layer chose to compute; those that are chosen beforehand not among them.
struct RefreshNode {
    int32_t       layer   = 0;
    ggml_tensor * drifted = nullptr; // i32 [n]
};

// A layer before which a pass may stop, and go on with all rows.
struct ResetNode {
    int32_t       layer = 0;
    ggml_tensor * drift = nullptr; // [1], of the layer before
    ggml_tensor * ready = nullptr; // its inputs are stored
};

// A node that shares memory with others of its layer, so it must be computed on the layer's device.
struct PinnedNode {
    int32_t       layer;
    ggml_tensor * tensor;
};

// Keys and values of all rows of a layer.
struct KeysValues {
    ggml_tensor * k = nullptr; // [D, Hkv, n], rotated
    ggml_tensor * v = nullptr; // [D, Hkv, n]
};

// One forward pass as a ggml graph. The constructor calls the architecture, which calls the building blocks.
class Graph {
public:
    // flash: per layer, whether the fused attention is to be used.
    Graph(const LoadedModel & model, const GraphRecipe & recipe, const GraphKey & key, const KvStore & store,
          const RowStore & row_store, const LogitStore & logit_store, const std::vector<bool> & flash);

    static size_t node_limit(const HParams & hp, const GraphKey & key);

    const GraphKey &                 key() const { return key_; }
    const GraphInputs &              inputs() const { return inputs_; }
    const std::vector<GraphOutput> & outputs() const { return outputs_; }
    const std::vector<TapNode> &     taps() const { return taps_; }
    const std::vector<EditNode> &    edits() const { return edits_; }
    const std::vector<ProductNode> & products() const { return products_; }
    const std::vector<RefreshNode> & refreshes() const { return refreshes_; }
    const std::vector<ResetNode> &   resets() const { return resets_; }
    const std::vector<PinnedNode> &  pinned() const { return pinned_; }
    ggml_cgraph *                    cgraph() const { return graph_; }
    int64_t                          n_query_rows(int32_t il) const;
    int64_t                          n_layer_rows() const { return n_layer_rows_; } // of all layers
    int64_t                          n_head_rows() const { return n_head_rows_; }

    // Building blocks. x is the residual stream or something made of it, [E, n].
    const HParams &      hparams() const { return hp_; }
    const Weights &      weights() const { return model_.weights(); }
    const LayerWeights & layer(int32_t il) const { return weights().layers[static_cast<size_t>(il)]; }

    ggml_tensor * embed_tokens(); // [E, N]
    ggml_tensor * extra_input();  // [E, N], what the requests bring; null where they bring nothing
    ggml_tensor * rms_norm(ggml_tensor * x, const Norm & norm); // without a weight: only normalised
    ggml_tensor * layer_norm(ggml_tensor * x, const Norm & norm);
    ggml_tensor * linear(const Linear & part, ggml_tensor * x);
    ggml_tensor * add(ggml_tensor * a, ggml_tensor * b);
    ggml_tensor * multiply(ggml_tensor * a, ggml_tensor * b);
    ggml_tensor * scale(ggml_tensor * x, float factor);
    ggml_tensor * softcap(ggml_tensor * x, float cap);                             // cap · tanh(x / cap)
    ggml_tensor * gelu(ggml_tensor * x);                                           // the tanh form
    ggml_tensor * swiglu(const Linear & gate, const Linear & up, ggml_tensor * x); // silu(gate·x) · (up·x)
    ggml_tensor * geglu(const Linear & gate, const Linear & up, ggml_tensor * x);  // gelu(gate·x) · (up·x)
    ggml_tensor * heads(int32_t il, ggml_tensor * x);                              // [n·D, T] -> [D, n, T]
    ggml_tensor * rope(int32_t il, ggml_tensor * x); // at the positions of the rows being built
    ggml_tensor * scale_queries(ggml_tensor * q);    // by position, where the model does; q [D, H, n]

    // The chosen experts' outputs, weighted. h [E, n] -> [E, n]; router: what they are chosen by, if not the same.
    ggml_tensor * experts(const ExpertWeights & w, ggml_tensor * h, ggml_tensor * router = nullptr);

    // Of a model that writes canvases. A condition's logits become the mean of all tokens' embeddings by their softmax, [E, T]; null
    // where the sequence has none.
    bool          is_canvas(size_t sequence) const { return key_.sequences[sequence].canvas; }
    ggml_tensor * mean_embedding(size_t sequence);

    // Rows that are treated differently: those of each sequence, or those of canvases and the others.
    using RowsOf = std::function<ggml_tensor *(ggml_tensor * rows, size_t sequence)>;
    using ModeOf = std::function<ggml_tensor *(ggml_tensor * rows, bool canvas)>;
    ggml_tensor * each_sequence(ggml_tensor * x, const RowsOf & make);
    ggml_tensor * by_mode(ggml_tensor * x, const ModeOf & make);

    // A block's halves: keys and values are made of all rows, the rest of those somebody needs. Either may be built in pieces, so a
    // half sees only the rows it is given.
    using KeysOf = std::function<KeysValues(ggml_tensor * x)>;
    using RestOf = std::function<ggml_tensor *(ggml_tensor * x)>;
    void          keys_values(int32_t il, ggml_tensor * x, const KeysOf & make);
    ggml_tensor * rows_needed(int32_t il, ggml_tensor * x, const RestOf & make);

    // q [D, H, n] against the keys given or stored -> [H·D, n]
    ggml_tensor * attention(int32_t il, ggml_tensor * q);

private:
    // The rows being built: all of a pass, those asked for in the last layer, or a piece of them.
    struct Rows {
        ggml_tensor * positions = nullptr; // i32 [n]
        ggml_tensor * scales    = nullptr; // [1, n]
        ggml_tensor * cells     = nullptr; // i64 [n]
        bool          needed    = false;   // those asked for
        int64_t       first     = 0;       // of a piece
        int64_t       n         = 0;
        int64_t       n_all     = 0;
    };

    // Columns that are one sequence's.
    struct Span {
        int64_t first = 0;
        int64_t n     = 0;
    };

    // The rows that a layer computes of those it has.
    struct PartialRows {
        ggml_tensor * positions = nullptr; // i32 [n], also their columns; null: none
        ggml_tensor * x         = nullptr; // [E, n]
    };

    // What was packed last, for several products with the same rows.
    struct Packed {
        ggml_tensor * rows   = nullptr;
        ggml_tensor * packed = nullptr;
    };

    // graph.cpp
    void          make_inputs();
    ggml_tensor * input(ggml_type type, int64_t ne0, int64_t ne1, const char * name);
    void          build_head(ggml_tensor * x);
    ggml_tensor * guided(size_t sequence, ggml_tensor * logits);
    void          add_output(size_t first, size_t last, ggml_tensor * logits);
    void          keep_logits(size_t sequence, ggml_tensor * logits);
    void          summarize(GraphOutput & output);

    // rows.cpp
    bool          rows_restricted(int32_t il) const;
    bool          is_watched(int32_t il) const; // tapped or edited
    Span          span(size_t sequence, bool needed) const;
    void          enter(const Rows & rows, int64_t first, int64_t n);
    int64_t       piece_size(int32_t il, int64_t n) const;
    int64_t       tile_rows(size_t sequence, int64_t n) const;
    ggml_tensor * columns(ggml_tensor * x, int dim, const Span & span); // n of [E, n] or [D, H, n]
    ggml_tensor * own_rows(int32_t il, ggml_tensor * x);
    void          store_keys(int32_t il, const KeysValues & kv);
    void          show_dropped_rows(int32_t il, ggml_tensor * x, const RestOf & make);

    // layers.cpp
    bool          is_packed(const ggml_tensor * w, int64_t n_rows) const;
    ggml_tensor * packed(ggml_tensor * x);
    void          watch_product(const ggml_tensor * weight, const ggml_tensor * x, const ggml_tensor * ids,
                                const ggml_tensor * ready);
    ggml_tensor * gated(const Linear & gate, const Linear & up, ggml_tensor * x, bool use_gelu);
    ggml_tensor * choose_experts(ggml_tensor * scores);
    ggml_tensor * by_expert(ggml_tensor * matrices, ggml_tensor * x, ggml_tensor * chosen);         // i32 [U, n]
    ggml_tensor * gated_experts(const ExpertWeights & w, ggml_tensor * rows, ggml_tensor * chosen); // -> [F, U, n]

    // attention.cpp
    ggml_tensor * attend_sequence(int32_t il, size_t sequence, ggml_tensor * q);
    ggml_tensor * mask(int32_t il, size_t sequence);
    ggml_tensor * attention_pattern(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k, bool shown);
    ggml_tensor * mix(ggml_tensor * pattern, ggml_tensor * v); // -> [H·D, n]
    ggml_tensor * flash_attention(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v);
    ggml_tensor * by_head(ggml_tensor * x); // [D, n, T] -> [D, T, n]
    ggml_tensor * joined(const std::vector<ggml_tensor *> & parts);
    bool          use_kernels(int32_t il, const ggml_tensor * k, const ggml_tensor * v) const;

    // partial.cpp
    bool          is_partial(int32_t il) const;
    bool          is_compared(int32_t il) const;
    ggml_tensor * cosine(ggml_tensor * dot, ggml_tensor * a, ggml_tensor * b); // of sums over the same elements
    ggml_tensor * position_span(const Span & span);
    ggml_tensor * new_values(ggml_tensor * x, const Span & span, const KeysOf & make);
    ggml_tensor * drifted(int32_t il, ggml_tensor * v);
    void          partial_keys(int32_t il, ggml_tensor * x, const KeysOf & make);
    ggml_tensor * partial_rows(int32_t il, ggml_tensor * x, const RestOf & make);
    void          keep_added(int32_t il, ggml_tensor * before, ggml_tensor * after);
    ggml_tensor * stored_input();
    void          keep_input(int32_t il, ggml_tensor * x);
    ggml_tensor * tracked_pattern(int32_t il, ggml_tensor * queries);
    void          track_before(int32_t il);
    void          track_now(int32_t il, ggml_tensor * q);

    // edits.cpp
    ggml_tensor * edited_pattern(int32_t il, size_t sequence, ggml_tensor * scores, float scale);
    ggml_tensor * edit_mask(int32_t il, size_t sequence);

    // taps.cpp
    using Tapped = std::function<void(size_t observer, const ObserverKey & key)>;
    void          each_observer(size_t sequence, const Tapped & call);
    void          expand_last(ggml_tensor * x);
    void          tap(size_t sequence, size_t observer, const TapPoint & point, ggml_tensor * x, ggml_tensor * ready,
                      float scale = 1.0f);
    void          tap_copy(Tap kind, int32_t il, size_t sequence, ggml_tensor * x);
    void          tap_scores(int32_t il, size_t sequence, ggml_tensor * scores, ggml_tensor * ready, float scale);
    void          tap_pattern(int32_t il, size_t sequence, ggml_tensor * pattern);
    void          tap_weights(int32_t il, size_t sequence, ggml_tensor * q, ggml_tensor * k);
    void          tap_residual(int32_t il, ggml_tensor * x);
    ggml_tensor * tap_rows(int32_t il, size_t sequence, size_t observer); // i32 [rows, heads]; null: all
    ggml_tensor * selected(int32_t il, size_t sequence, size_t observer, ggml_tensor * pattern);
    ggml_tensor * mean_over(int dim, ggml_tensor * x);
    ggml_tensor * region_sums(size_t sequence, size_t observer, ggml_tensor * mean);

    const LoadedModel &       model_;
    const HParams &           hp_;
    GraphRecipe               recipe_;
    GraphKey                  key_;
    const KvStore &           store_;
    const RowStore &          row_store_;
    const LogitStore &        logit_store_;
    const std::vector<bool> & flash_;
    ggml_context_ptr          ctx_;
    ggml_cgraph *             graph_ = nullptr;
    GraphInputs               inputs_;
    std::vector<GraphOutput>  outputs_;
    std::vector<TapNode>      taps_;
    std::vector<EditNode>     edits_;
    std::vector<ProductNode>  products_;
    std::vector<PinnedNode>   pinned_;
    std::vector<RefreshNode>  refreshes_;
    std::vector<ResetNode>    resets_;
    PinnedNode    own_rows_{-1, nullptr}; // rows that pieces are written into, and the layer they were made for
    Rows          rows_;                  // being built
    KeysValues    keys_;                  // of the layer being built
    bool          showing_      = false;  // rows that no result needs
    bool          flash_on_cpu_ = false;  // in some layer
    int64_t       n_head_rows_  = 0;
    int64_t       n_layer_rows_ = 0;
    ggml_tensor * tracked_      = nullptr; // how tracked positions attended before, of the layer being built
    ggml_tensor * drift_        = nullptr; // of the layer built last
    PartialRows   partial_;                // of the layer being built
    Packed        packed_;
    std::map<std::pair<ggml_tensor *, ggml_tensor *>, ggml_tensor *> normed_; // by rows and weight
};

} // namespace buoy
