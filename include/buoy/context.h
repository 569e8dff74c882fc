#pragma once

#include "buoy/model.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Letters: T tokens computed, K keys attended to, R rows asked for, V vocabulary, E width, H heads, D head dimension.

namespace buoy {

// Activations that can be observed, named after TransformerLens. Shapes are outermost dimension first.
enum class Tap {
    attn_scores, // blocks.{l}.attn.hook_attn_scores [H, T, K], scaled, masked entries are -inf
    pattern,     // blocks.{l}.attn.hook_pattern     [H, T, K], softmax of the scores
    rot_q,       // blocks.{l}.attn.hook_rot_q       [H, T, D], after norm and RoPE
    rot_k,       // blocks.{l}.attn.hook_rot_k       [Hkv, K, D]
    v,           // blocks.{l}.attn.hook_v           [Hkv, K, D]
    resid_post,  // blocks.{l}.hook_resid_post       [T, E]
};

std::string tap_name(Tap tap, int32_t layer);

// How a pattern [H, T, K] is reduced on the device before it is handed over. Heads and rows are those selected.
enum class TapReduce {
    none,
    heads,    // mean over heads             [1, T, K]
    received, // mean over query rows        [H, 1, K]
    regions,  // sums over pairs of regions of the mean over heads [1, R, R], query region first
};

struct TapPoint {
    Tap       tap;
    int32_t   layer;
    TapReduce reduce = TapReduce::none; // of a pattern; the other taps come as they are

    bool operator==(const TapPoint & other) const = default;
};

// The part of patterns and scores that taps are about; other taps come whole. Empty: all of it.
struct TapSelection {
    std::vector<int32_t>              heads;   // ascending
    std::vector<int32_t>              rows;    // indices into 0 … T-1, ascending
    std::vector<std::vector<int32_t>> regions; // positions of each region, for TapReduce::regions
};

// One observed activation. The data lives until the sink returns.
struct TapEvent {
    TapPoint               point;
    std::array<int64_t, 3> shape{}; // outermost first; resid_post is [1, T, E]
    const float *          data = nullptr;
};

using TapSink = std::function<void(const TapEvent &)>;

// A change of one layer's attention before its softmax: bias is added to the scaled scores of these keys, -inf drops them. Several
// for the same place add up. A query left without any key is an error. Taps show what was edited.
struct AttentionEdit {
    int32_t              layer = 0;
    std::vector<int32_t> heads;   // empty: all
    std::vector<int32_t> queries; // positions; empty: all
    std::vector<int32_t> keys;    // positions; those that are not there are ignored
    float                bias = 0.0f;
};

// What a layer would attend to without its edits, and the edits that follow from it.
// received [H, K]: the mean over query rows of the unedited pattern's columns, K columns for the key positions given.
using EditProbe = std::function<std::vector<AttentionEdit>(int32_t layer, const std::vector<int32_t> & key_positions,
                                                           const float * received)>;

// Told of every edit of a pass that changes something, whoever asked for it, before the layer's softmax.
using EditSink = std::function<void(const AttentionEdit &)>;

// What reaches a weight: x [n_rows, n_cols], and for the matrices of experts which of them each row goes through.
struct ProductEvent {
    const char *             weight   = nullptr; // its name in the file
    int64_t                  n_rows   = 0;
    int64_t                  n_cols   = 0;
    int64_t                  n_expert = 0; // 0: one matrix for all rows
    const float *            x        = nullptr;
    std::span<const int32_t> experts; // [n_rows], for each row its expert
};

using ProductSink = std::function<void(const ProductEvent &)>;

// Somebody who looks at one sequence of one pass, or changes what it attends to. Several work side by side: each gets what it asked
// for, edits add up. Nobody there costs nothing, and looking changes no result.
struct Observer {
    std::vector<TapPoint> taps;
    TapSelection          selection;
    TapSink               sink;
    std::vector<int32_t>  probed; // layers whose edits are found while the pass runs
    EditProbe             probe;
    EditSink              edited;
    ProductSink           products;
};

// A pass over a whole sequence that computes only a part of it (dLLM-Cache): in the first layer everything, in later layers the rows
// chosen here; what the others add to the residual stream is as the pass that computed them last left it.
struct PartialRefresh {
    int32_t n_prompt  = 0;     // positions before the answer
    bool    prompt    = false; // compute all of them
    bool    answer    = false; // compute all others
    bool    values    = false; // else the answer's values are all computed, and stored
    int32_t n_drifted = 0; // and of their rows, as many as have values furthest (by cosine) from those stored before

    bool operator==(const PartialRefresh & other) const = default;
};

// A pass over a part of a sequence that may turn into one over all of it (Elastic-Cache). Each layer compares how the tracked positions
// attend now and before; from the layer on that follows one where that has drifted, all positions are computed, from what the layer was
// given for them last. A pass over everything, with nothing tracked, comes first.
struct DriftReset {
    std::vector<int32_t> track;        // positions, among those given
    float                gamma = 0.0f; // the cosine, over heads, below which it is drift
};

enum class OutputKind { none, logits, summary };

enum class KvUse {
    none, // the tokens given are all there is
    store, // write the given tokens' K/V at their positions, attend to every position stored so far that the attention kind allows
};

// Classifier-free guidance: what comes out is un + (scale + 1)(cond − un) of this sequence and another one of the same pass, which has
// as many rows, and no output of its own. Edits are for both.
struct Guidance {
    size_t unconditional = 0; // index in the batch
    float  scale         = 0.0f;

    bool operator==(const Guidance & other) const = default;
};

// What a canvas is conditioned on: logits that an earlier pass gave for its rows. By their softmax they become a mean embedding each.
struct SelfCondition {
    float              temperature = 1.0f; // by which they are divided
    std::vector<float> logits;             // [T, V]; empty: those that the sequence's last pass kept
};

// Of logits divided by the temperature: a token for each row, the first at which the sum of probabilities is above the number given.
struct RowDraw {
    float              temperature = 1.0f;
    std::vector<float> uniform; // [R], in [0, 1)
};

// One sequence of a pass.
struct ForwardRequest {
    int32_t sequence = 0;        // of the context's, for what is stored; each one at most once in a pass with a store
    std::vector<int32_t> tokens; // [T]
    std::vector<int32_t> positions; // [T], strictly increasing; empty: 0 … T-1
    std::vector<int32_t> rows;      // [R], indices into 0 … T-1, the rows whose output is wanted
    OutputKind           output = OutputKind::logits;
    KvUse                kv     = KvUse::none;

    // > 0: the last of the tokens are a shadow. Each stands for a position of the sequence, which its entry of `positions` names; it
    // attends to the shadow and to the sequence without that position, and the sequence does not see it (WINO). Observers are shown the
    // sequence alone. For full attention without a store.
    int32_t n_shadow = 0;

    std::optional<AttentionKind> attention;        // instead of the model's own
    int32_t                      block_length = 0; // > 0: of block-causal attention, instead of the model's own
    std::vector<float>           extra;            // [T, E], what an architecture that takes it adds to the embedding
    std::optional<Guidance>      guidance;

    // models that write canvases (our own engine)
    std::optional<SelfCondition> condition;
    bool                   keep_logits = false; // for the condition of the sequence's next pass; all rows are asked for
    std::optional<RowDraw> draw;                // summaries are of the divided logits, and have a token drawn

    // passes that choose what they compute: full attention with a store, one sequence alone (our own engine)
    std::optional<PartialRefresh> refresh;
    std::optional<DriftReset>     reset;

    std::vector<AttentionEdit> edits; // known before the pass
    std::vector<Observer>      observers;
};

// What greedy and threshold decoding need of a row, reduced on the device so that V floats never travel.
struct RowSummary {
    int32_t id        = 0; // argmax
    int32_t second_id = 0; // the runner-up
    float   prob      = 0; // softmax probability of id over the full vocabulary
    float   margin    = 0; // prob minus the runner-up's
    float   entropy   = 0; // in nats
    int32_t drawn_id  = 0; // as RowDraw says; without one the argmax
};

struct ForwardResult {
    std::vector<float>      logits;    // [R, V] for OutputKind::logits
    std::vector<RowSummary> summaries; // [R] for OutputKind::summary

    std::map<int32_t, std::vector<int32_t>> refreshed;   // PartialRefresh: by layer, positions, where they are not all
    std::optional<int32_t>                  reset_layer; // DriftReset: the first layer that computed everything
};

// Products of weights and rows: multiply-adds by the type of the weights, and the bytes of weights that a pass reads at least once. An
// expert counts as read if it can have been chosen: as many of them as there are choices.
struct ProductWork {
    int64_t  quantised    = 0;
    int64_t  f16          = 0;
    int64_t  bf16         = 0;
    int64_t  f32          = 0;
    uint64_t weight_bytes = 0;
};

// Counters since the context was made; tests use them to see what was not computed.
struct ContextStats {
    int64_t n_forward         = 0;
    int64_t n_graph_build     = 0; // forwards that could not reuse the previous graph
    int64_t n_tokens          = 0; // tokens computed, of all sequences
    int64_t n_head_rows       = 0; // rows that went through the LM head
    int64_t n_layer_rows      = 0; // rows that went through the query side of a layer, of all layers
    int64_t n_query_rows_last = 0; // rows that went through the last layer's query side
    int32_t n_threads_last    = 0; // of the last pass, on the CPU
    size_t  compute_bytes     = 0; // size of the compute buffers
    size_t  kv_bytes          = 0; // size of the K/V store

    ProductWork work; // of all passes; counted where buoy's own engine runs on the CPU alone
};

// Nodes of a graph, one after the other, that a device computes before anything has to be copied.
struct GraphSplit {
    std::string device;
    int32_t     n_nodes = 0;
};

// What runs a model: K/V, graphs, threads. Several on one model work independently of each other, also at the same time.
class Context {
public:
    virtual ~Context() = default;

    virtual const Model & model() const = 0;

    const ModelInfo & info() const { return model().info(); }

    // Computes the sequences in one pass, each as if it were alone. Results stay valid until the next call.
    virtual const std::vector<ForwardResult> & forward(std::span<const ForwardRequest> batch) = 0;
    const ForwardResult &                      forward(const ForwardRequest & request) {
                             return forward(std::span<const ForwardRequest>(&request, 1))[0];
    }

    // Forgets the stored K/V of every position >= first of a sequence.
    virtual void kv_truncate(int32_t sequence, int32_t first) = 0;

    // Positions the store can hold, of each sequence.
    virtual int32_t n_ctx() const = 0;

    virtual const ContextParams & params() const = 0; // as given

    virtual ContextStats stats() const = 0;

    // Where the weights ended up; libllama's are known once a pass has used them.
    virtual std::vector<PlacedWeight> placed_weights() const { return {}; }

    // How the graph of the last pass was divided over devices.
    virtual std::vector<GraphSplit> graph_splits() const { return {}; }
};

// A model for one context.
std::unique_ptr<Context> load_context(const ModelFile & file, const ModelParams & model, const ContextParams & params);

} // namespace buoy
