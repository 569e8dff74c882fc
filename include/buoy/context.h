#pragma once

#include "buoy/model.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Letters: T tokens computed, K keys attended to, R rows asked for, V vocabulary, E width, H heads, D head dimension, S streams.

namespace buoy {

enum class FlashAttention { off, on, automatic };

enum class KvType { f32, f16, q8_0 };

struct ContextParams {
    int32_t        n_ctx     = 0; // positions of the K/V store; -1: the model's training length; 0: that, at most 4096
    int32_t        n_streams = 1; // sequences computed side by side (2 for classifier-free guidance)
    int32_t        n_threads = 0; // 0: one per core
    FlashAttention flash     = FlashAttention::automatic;
    KvType         type_k    = KvType::f16;
    KvType         type_v    = KvType::f16;
};

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

    bool operator==(const TapPoint & other) const {
        return tap == other.tap && layer == other.layer && reduce == other.reduce;
    }
};

// The part of patterns and scores that taps are about; other taps come whole. Empty: all of it.
struct TapSelection {
    std::vector<int32_t>              heads;   // ascending
    std::vector<int32_t>              rows;    // indices into 0 … T-1, ascending
    std::vector<std::vector<int32_t>> regions; // positions of each region, for TapReduce::regions
};

// A change of one layer's attention before its softmax, in every stream: bias is added to the scaled scores of these keys,
// -inf drops them. Several for the same place add up. A query left without any key is an error. Taps show what was edited.
struct AttentionEdit {
    int32_t              layer = 0;
    std::vector<int32_t> heads;   // empty: all
    std::vector<int32_t> queries; // positions; empty: all
    std::vector<int32_t> keys;    // positions; those that are not there are ignored
    float                bias = 0.0f;
};

// What a layer would attend to without its edits, and the edits that follow from it.
// received [H, K]: the mean over query rows of the unedited pattern's columns, K columns for the key positions given. It is
// the first stream's; the edits are for all.
using EditProbe = std::function<std::vector<AttentionEdit>(int32_t layer, const std::vector<int32_t> & key_positions,
                                                           const float * received)>;

// One observed activation of one stream. The data lives until the sink returns.
struct TapEvent {
    TapPoint               point;
    int32_t                stream = 0;
    std::array<int64_t, 3> shape{}; // outermost first; resid_post is [1, T, E]
    const float *          data = nullptr;
};

using TapSink = std::function<void(const TapEvent &)>;

enum class OutputKind { none, logits, summary };

enum class KvUse {
    none, // the tokens given are all there is
    store, // write the given tokens' K/V at their positions, attend to every position stored so far that the attention kind allows
};

struct ForwardRequest {
    std::vector<int32_t> tokens;    // [S, T]
    std::vector<int32_t> positions; // [T], the same in every stream, strictly increasing; empty: 0 … T-1
    std::vector<int32_t> rows;      // [R], indices into 0 … T-1, the rows whose output is wanted
    OutputKind           output       = OutputKind::logits;
    KvUse                kv           = KvUse::none;
    int32_t              block_length = 0; // > 0: of block-causal attention, instead of the model's own
    // > 0 with two streams: what comes out is un + (w + 1)(cond − un) of the second and the first, one row for both
    float                 cfg_scale = 0.0f;
    std::vector<TapPoint> taps; // empty: nothing is observed and nothing is paid for it
    TapSelection          selection;
    TapSink               sink;

    std::vector<AttentionEdit> edits;  // known before the pass
    std::vector<int32_t>       probed; // layers whose edits are found while the pass runs
    EditProbe                  probe;
};

// What greedy and threshold decoding need of a row, reduced on the device so that V floats never travel.
struct RowSummary {
    int32_t id        = 0; // argmax
    int32_t second_id = 0; // the runner-up
    float   prob      = 0; // softmax probability of id over the full vocabulary
    float   margin    = 0; // prob minus the runner-up's
    float   entropy   = 0; // in nats
};

struct ForwardResult {
    std::vector<float>      logits;    // [S, R, V] for OutputKind::logits
    std::vector<RowSummary> summaries; // [S, R] for OutputKind::summary
};

// Counters since the engine was made; tests use them to see what was not computed.
struct ContextStats {
    int64_t n_forward         = 0;
    int64_t n_graph_build     = 0; // forwards that could not reuse the previous graph
    int64_t n_tokens          = 0; // tokens computed, all streams
    int64_t n_head_rows       = 0; // rows that went through the LM head
    int64_t n_query_rows_last = 0; // rows that went through the last layer's query side
    size_t  compute_bytes     = 0; // size of the compute buffers
    size_t  kv_bytes          = 0; // size of the K/V store
};

struct PlacedWeight {
    std::string name; // as the file has it; a matrix that is used in two ways may be there twice
    std::string device;
    size_t      n_bytes = 0;
};

// Nodes of a graph, one after the other, that a device computes before anything has to be copied.
struct GraphSplit {
    std::string device;
    int32_t     n_nodes = 0;
};

class Context {
public:
    virtual ~Context() = default;

    virtual const ModelInfo & info() const = 0;

    // The result stays valid until the next call.
    virtual const ForwardResult & forward(const ForwardRequest & request) = 0;

    // Forgets the stored K/V of every position >= first.
    virtual void kv_truncate(int32_t first) = 0;

    // Positions the store can hold.
    virtual int32_t n_ctx() const = 0;

    virtual ContextStats stats() const = 0;

    // Is AttentionEdit something this engine does?
    virtual bool can_edit() const = 0;

    // Where the weights ended up; libllama's are known once a pass has used them.
    virtual std::vector<PlacedWeight> placed_weights() const { return {}; }

    // How the graph of the last pass was divided over devices.
    virtual std::vector<GraphSplit> graph_splits() const { return {}; }
};

// Our engine where it knows the architecture, libllama's otherwise.
std::unique_ptr<Context> load_context(const ModelParams & model, const ContextParams & params);

// The second engine: any architecture libllama knows, full or causal attention only, one stream.
std::unique_ptr<Context> load_llama_context(const ModelParams & model, const ContextParams & params);

} // namespace buoy
