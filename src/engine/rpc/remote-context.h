#pragma once

#include "buoy/context.h"
#include "engine/rpc/guard.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

// An engine that may have weights on RPC servers: it lives on a thread that can be given up when one of them is lost. What it
// held there is then never freed, because freeing would wait for the server.
class RemoteContext : public Context {
public:
    using Load = std::function<std::unique_ptr<Context>(const ModelParams &, const ContextParams &)>;

    RemoteContext(const Load & load, const std::vector<std::string> & servers, ModelParams model,
                  const ContextParams & params);
    ~RemoteContext() override;

    const ModelInfo &         info() const override { return context_->info(); }
    const ForwardResult &     forward(const ForwardRequest & request) override;
    void                      kv_truncate(int32_t first) override { context_->kv_truncate(first); }
    int32_t                   n_ctx() const override { return context_->n_ctx(); }
    ContextStats              stats() const override { return context_->stats(); }
    bool                      can_edit() const override { return context_->can_edit(); }
    std::vector<PlacedWeight> placed_weights() const override { return context_->placed_weights(); }
    std::vector<GraphSplit>   graph_splits() const override { return context_->graph_splits(); }

private:
    GuardedThread thread_;
    Context *     context_ = nullptr; // deleted on its thread
};

} // namespace buoy
