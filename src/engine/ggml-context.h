#pragma once

#include "engine/edit-mask.h"
#include "engine/ggml-model.h"
#include "graph/graph.h"
#include "graph/kv-store.h"
#include "graph/logit-store.h"
#include "graph/row-store.h"

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

namespace buoy {

// Our own: the model's graph on ggml's scheduler.
class GgmlContext : public Context {
public:
    GgmlContext(std::shared_ptr<const GgmlModel> model, const ContextParams & params);

    using Context::forward;

    const Model &                      model() const override { return *model_; }
    const std::vector<ForwardResult> & forward(std::span<const ForwardRequest> batch) override;
    void                               kv_truncate(int32_t sequence, int32_t first) override;
    int32_t                            n_ctx() const override { return store_.n_ctx(); }
    const ContextParams &              params() const override { return params_; }
    ContextStats                       stats() const override;

    std::vector<PlacedWeight> placed_weights() const override { return loaded_.placed_weights(); }
    std::vector<GraphSplit>   graph_splits() const override;

    const Graph * graph() const { return graph_.get(); } // of the last pass

private:
    // One sequence of the pass that is being computed.
    struct Sequence {
        const ForwardRequest * request = nullptr;
        std::vector<int32_t>   positions;        // [T]
        size_t                 n_own        = 0; // tokens without the shadow behind them
        AttentionKind          attention    = AttentionKind::full;
        int32_t                block_length = 0;
        std::vector<bool>      present; // by position, where K/V are stored: those there and those given
        std::map<int32_t, std::vector<PlacedEdit>> edits; // by layer; empty for one that is only probed
    };

    // ggml-context.cpp
    void               make_scheduler(size_t n_nodes);
    void               begin_pass(std::span<const ForwardRequest> batch);
    void               run_pass(std::span<const ForwardRequest> batch, int32_t layer_first);
    ForwardRequest     everything(const ForwardRequest & part, int32_t layer_first) const;
    void               prepare_partial();
    void               prepare_logits();
    GraphKey           make_key() const;
    SequenceKey        make_key(const Sequence & seq) const;
    void               prepare(const GraphKey & key);
    void               pin_nodes();
    void               set_threads();
    void               tell_splits();
    void               set_inputs();
    std::vector<float> query_scales(const std::vector<int32_t> & positions) const;
    void set_mask(ggml_tensor * mask, const Sequence & seq, const std::vector<int32_t> & rows, int32_t window);
    void compute();
    void abandon_pass();
    void read_outputs();
    void read_summaries(const GraphOutput & output);
    void count_pass();
    void read_refreshed();

    bool         is_stored(const Sequence & seq) const { return seq.request->kv == KvUse::store; }
    bool         is_open(const Sequence & seq, int32_t window, size_t row, size_t column) const; // of the mask
    TapSelection shown(const Sequence & seq, const TapSelection & selection) const;              // without a shadow
    int32_t      n_keys(const Sequence & seq) const;                                             // without padding
    int64_t      column_of(const Sequence & seq, int32_t position) const; // of a mask or pattern; -1: it is not there

    // ggml-taps.cpp
    ObserverKey   observer_key(const Sequence & seq, const Observer & observer) const;
    void          set_observer_inputs(const Sequence & seq, const TapSelection & selection, const ObserverInputs & in);
    static bool   on_node(ggml_tensor * tensor, bool ask, void * self);
    void          show(const ggml_tensor * ready);
    void          deliver(const TapNode & node);
    void          deliver_scores(const TapNode & node, const float * data);
    void          deliver(const ProductNode & node);
    const float * host_data(const ggml_tensor * tensor);
    void          restore_head_order(int32_t layer, float * head);

    // ggml-edits.cpp
    std::optional<PlacedEdit> place(const Sequence & seq, const AttentionEdit & edit) const;
    void                      place_edits(Sequence & seq);
    void                      add_edits(const Sequence & seq, SequenceKey & key) const;
    void                      begin_edits();
    std::vector<PlacedEdit>   probe(Sequence & seq, const EditNode & node);
    void                      write_edits(const EditNode & node);
    void                      tell_edit(const Sequence & seq, const AttentionEdit & edit) const;

    std::shared_ptr<const GgmlModel>                       model_;
    const LoadedModel &                                    loaded_;
    ContextParams                                          params_;
    std::set<std::string>                                  told_; // how graphs were divided
    std::vector<ggml_backend_ptr>                          backends_;
    std::map<ggml_backend_t, ggml_backend_set_n_threads_t> set_threads_; // of those that have threads
    ggml_backend_sched_ptr                                 sched_;
    size_t                                                 sched_nodes_ = 0; // it has room for
    KvStore                                                store_;
    RowStore                                               row_store_;
    LogitStore                                             logit_store_;
    std::vector<bool>                                      flash_; // per layer
    int64_t                                                kv_pad_;

    std::unique_ptr<Graph>                  graph_;
    std::unordered_set<const ggml_tensor *> awaited_; // nodes that somebody waits for
    std::vector<Sequence>                   pass_;
    std::map<const ggml_tensor *, EditMask> edit_masks_; // by the tensor that holds it

    // host side of the inputs, kept to avoid allocating in every step
    std::vector<int32_t>     ints_;
    std::vector<int64_t>     cells_;
    std::vector<ggml_fp16_t> mask_;
    std::vector<float>       floats_;
    std::vector<float>       tap_data_, tap_trimmed_, head_;

    std::exception_ptr         error_;    // of whoever was shown something
    std::optional<int32_t>     reset_at_; // the layer before which the pass was stopped
    std::vector<ForwardResult> results_;
    ContextStats               stats_;
    ProductWork                work_; // of the graph
};

} // namespace buoy
