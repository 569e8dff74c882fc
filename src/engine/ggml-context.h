#pragma once

#include "buoy/context.h"
#include "engine/edit-mask.h"
#include "graph/graph.h"
#include "graph/kv-store.h"
#include "model/model.h"

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace buoy {

// Our engine: the model's graph on ggml's scheduler.
class GgmlContext : public Context {
public:
    GgmlContext(std::unique_ptr<const Model> model, const ContextParams & params, LogCallback log = {});

    const ModelInfo &     info() const override { return model_->info(); }
    const ForwardResult & forward(const ForwardRequest & request) override;
    void                  kv_truncate(int32_t first) override { store_.truncate(first); }
    int32_t               n_ctx() const override { return store_.n_ctx(); }
    ContextStats          stats() const override;
    bool                  can_edit() const override { return true; }

    std::vector<PlacedWeight> placed_weights() const override { return model_->placed_weights(); }
    std::vector<GraphSplit>   graph_splits() const override;

    // Shows the nodes of every pass instead of taps: ask, then once more when one that was wanted is computed.
    using NodeWatcher = std::function<bool(const ggml_tensor * node, bool ask)>;
    void watch(NodeWatcher watcher) { watcher_ = std::move(watcher); }

private:
    void     check(const ForwardRequest & request) const;
    GraphKey make_key(const ForwardRequest & request);
    void     prepare(const GraphKey & key);
    void     tell_splits();
    void     set_inputs(const ForwardRequest & request);
    void     set_mask(ggml_tensor * mask, const std::vector<int32_t> & query_positions);
    void     compute(const ForwardRequest & request);
    void     read_outputs(const ForwardRequest & request);
    void     read_summaries();

    void        add_taps(const ForwardRequest & request, GraphKey & key) const;
    void        set_tap_inputs(const TapSelection & selection);
    static bool on_node(ggml_tensor * tensor, bool ask, void * self);
    static bool on_watched(ggml_tensor * tensor, bool ask, void * self);
    void        deliver(const TapNode & node);
    void        deliver_scores(const TapNode & node, const float * data);
    void hand_over(const TapPoint & point, int64_t stream, const std::array<int64_t, 3> & shape, const float * data);
    void restore_head_order(float * head);

    std::optional<PlacedEdit> place(const AttentionEdit & edit, KvUse kv) const;
    void                      add_edits(const ForwardRequest & request, GraphKey & key);
    void                      pin_nodes();
    void                      begin_edits();
    std::vector<PlacedEdit>   probe(const EditNode & node);
    void                      write_edits(const EditNode & node);

    bool    is_open(int32_t query, size_t column) const; // may the query position see that column of the mask
    int32_t n_keys() const;                              // without padding
    int64_t column_of(int32_t position, KvUse kv) const; // of a mask or pattern; -1: the position is not there

    std::unique_ptr<const Model>  model_;
    ContextParams                 params_;
    LogCallback                   log_;
    std::set<std::string>         told_; // how graphs were divided
    std::vector<ggml_backend_ptr> backends_;
    ggml_backend_sched_ptr        sched_;
    KvStore                       store_;
    std::vector<bool>             flash_; // per layer
    int64_t                       kv_pad_;

    std::unique_ptr<Graph> graph_;

    // host side of the inputs, kept to avoid allocating in every step
    std::vector<int32_t>     positions_;        // [T]
    int32_t                  block_length_ = 0; // of this pass, for block-causal attention
    std::vector<int32_t>     ints_;
    std::vector<int64_t>     cells_;
    std::vector<ggml_fp16_t> mask_;
    std::vector<float>       tap_data_, tap_trimmed_, head_;

    std::map<int32_t, std::vector<PlacedEdit>> edits_; // of this pass, by layer; empty for one that is only probed
    EditMask                                   edit_mask_;
    const ggml_tensor *                        edit_mask_on_ = nullptr; // the tensor that holds it

    const ForwardRequest * current_ = nullptr; // while computing, for the tap callback
    std::exception_ptr     tap_error_;
    NodeWatcher            watcher_;
    ForwardResult          result_;
    ContextStats           stats_;
};

} // namespace buoy
