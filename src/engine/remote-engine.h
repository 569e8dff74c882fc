#pragma once

#include "buoy/engine.h"
#include "engine/rpc-guard.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

// An engine that may have weights on RPC servers: it lives on a thread that can be given up when one of them is lost. What it
// held there is then never freed, because freeing would wait for the server.
class RemoteEngine : public Engine {
public:
    using Load = std::function<std::unique_ptr<Engine>(const ModelParams &, const EngineParams &)>;

    RemoteEngine(const Load & load, const std::vector<std::string> & servers, ModelParams model,
                 const EngineParams & params);
    ~RemoteEngine() override;

    const ModelInfo &         info() const override { return engine_->info(); }
    const ForwardResult &     forward(const ForwardRequest & request) override;
    void                      kv_truncate(int32_t first) override { engine_->kv_truncate(first); }
    int32_t                   n_ctx() const override { return engine_->n_ctx(); }
    EngineStats               stats() const override { return engine_->stats(); }
    bool                      can_edit() const override { return engine_->can_edit(); }
    std::vector<PlacedWeight> placed_weights() const override { return engine_->placed_weights(); }
    std::vector<GraphSplit>   graph_splits() const override { return engine_->graph_splits(); }

private:
    GuardedThread thread_;
    Engine *      engine_ = nullptr; // deleted on its thread
};

} // namespace buoy
