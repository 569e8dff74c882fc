#pragma once

#include "buoy/context.h"
#include "engine/graph-splits.h"
#include "engine/llama-model.h"
#include "engine/llama-taps.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace buoy {

// Any architecture that libllama knows, through its public API. Its limits: one sequence at a time; positions without gaps; a K/V store
// only for causal models, filled from position 0 on, where writing a position forgets all later ones.
class LlamaContext : public Context {
public:
    LlamaContext(std::shared_ptr<const LlamaModel> model, const ContextParams & params);

    using Context::forward;

    const Model &                      model() const override { return *model_; }
    const std::vector<ForwardResult> & forward(std::span<const ForwardRequest> batch) override;
    void                               kv_truncate(int32_t sequence, int32_t first) override;
    int32_t                            n_ctx() const override { return n_ctx_; }
    const ContextParams &              params() const override { return params_; }
    ContextStats                       stats() const override { return stats_; }

    std::vector<PlacedWeight> placed_weights() const override { return nodes_.weights(); }
    std::vector<GraphSplit>   graph_splits() const override { return nodes_.splits(); }

private:
    void    check(const ForwardRequest & request) const;
    void    check_observable(const ForwardRequest & request) const;
    void    run(const ForwardRequest & request, ForwardResult & result);
    void    leave_flash();
    int32_t first_position(const ForwardRequest & request) const;

    LlamaContextPtr make_context(int32_t n_ctx, int32_t n_batch, bool store);
    llama_context * plain_context(int32_t n_tokens);
    llama_context * stored_context(int32_t first);
    static bool     on_node(ggml_tensor * node, bool ask, void * self);
    void compute(llama_context * context, const ForwardRequest & request, int32_t chunk_first, int32_t chunk_n);
    void read_rows(llama_context * context, const ForwardRequest & request, int32_t chunk_first, int32_t chunk_n,
                   ForwardResult & result);

    std::shared_ptr<const LlamaModel> model_;
    std::string                       path_;
    ContextParams                     params_;
    FlashAttention                    flash_; // now
    LlamaTaps                         taps_;
    NodeLog                           nodes_;
    int32_t                           n_ctx_;

    LlamaContextPtr plain_; // for passes that neither read nor write stored K/V, made for plain_n_ tokens
    int32_t         plain_n_ = 0;
    LlamaContextPtr stored_;
    int32_t         stored_n_ = 0; // positions 0 … stored_n_ - 1 are there

    std::vector<int32_t> stored_tokens_; // theirs, and perhaps forgotten ones after them

    std::vector<int32_t>       positions_;
    std::vector<int8_t>        wanted_; // [T], rows that need an output
    std::vector<ForwardResult> results_;
    ContextStats               stats_;
};

} // namespace buoy
