#pragma once

#include "buoy/context.h"
#include "engine/graph-splits.h"
#include "engine/llama-taps.h"
#include "io/gguf-file.h"
#include "text/llama-handles.h"

#include <cstdint>
#include <vector>

namespace buoy {

// Any architecture that libllama knows, through its public API. Its limits: one stream; positions without gaps; a K/V store
// only for causal models, filled from position 0 on, where writing a position forgets all later ones.
class LlamaContext : public Context {
public:
    LlamaContext(const ModelParams & model, const ContextParams & params);

    const ModelInfo &     info() const override { return info_; }
    const ForwardResult & forward(const ForwardRequest & request) override;
    void                  kv_truncate(int32_t first) override;
    int32_t               n_ctx() const override { return n_ctx_; }
    ContextStats          stats() const override { return stats_; }
    bool                  can_edit() const override { return false; }

    std::vector<PlacedWeight> placed_weights() const override { return nodes_.weights(); }
    std::vector<GraphSplit>   graph_splits() const override { return nodes_.splits(); }

private:
    void    load(const GgufFile & file, const ModelParams & params);
    void    read_info(const GgufFile & file);
    void    check(const ForwardRequest & request) const;
    void    check_observable(const ForwardRequest & request) const;
    void    leave_flash();
    int32_t first_position(const ForwardRequest & request) const;

    LlamaContextPtr make_context(int32_t n_ctx, int32_t n_batch, bool store);
    llama_context * plain_context(int32_t n_tokens);
    llama_context * stored_context(int32_t first);
    static bool     on_node(ggml_tensor * node, bool ask, void * self);
    void compute(llama_context * context, const ForwardRequest & request, int32_t chunk_first, int32_t chunk_n);
    void read_rows(llama_context * context, const ForwardRequest & request, int32_t chunk_first, int32_t chunk_n);

    std::string   path_;
    LogCallback   log_;
    ContextParams params_;
    LlamaModelPtr model_;
    ModelInfo     info_;
    LlamaTaps     taps_{false, 0};
    NodeLog       nodes_;
    int32_t       n_ctx_     = 0;
    int32_t       n_threads_ = 0;

    LlamaContextPtr plain_; // for passes that neither read nor write stored K/V, made for plain_n_ tokens
    int32_t         plain_n_ = 0;
    LlamaContextPtr stored_;
    int32_t         stored_n_ = 0; // positions 0 … stored_n_ - 1 are there

    std::vector<int32_t> stored_tokens_; // theirs, and perhaps forgotten ones after them

    std::vector<int32_t> positions_;
    std::vector<int8_t>  wanted_; // [T], rows that need an output
    ForwardResult        result_;
    ContextStats         stats_;
};

} // namespace buoy
