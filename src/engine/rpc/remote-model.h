#pragma once

#include "buoy/context.h"
#include "engine/rpc/guard.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy {

// A model that may have weights on RPC servers. It and each of its contexts live on a thread that can be given up when a server is
// lost. What they held there is then never freed, because freeing would wait for the server.
class RemoteModel : public Model {
public:
    using Load = std::shared_ptr<const Model> (*)(const ModelFile &, const ModelParams &, const ContextParams &);

    RemoteModel(Load load, std::vector<std::string> servers, const ModelFile & file, ModelParams params,
                const ContextParams & planned);
    ~RemoteModel() override;

    const ModelInfo &        info() const override { return (*model_)->info(); }
    const Vocab &            vocab() const override { return (*model_)->vocab(); }
    bool                     can_edit() const override { return (*model_)->can_edit(); }
    std::unique_ptr<Context> make_context(const ContextParams & params) const override;

    const std::vector<std::string> & servers() const { return servers_; }
    const LogCallback &              log() const { return log_; }
    const Model &                    there() const { return **model_; }

private:
    std::vector<std::string>       servers_;
    LogCallback                    log_;
    mutable GuardedThread          thread_;
    std::shared_ptr<const Model> * model_ = nullptr; // deleted on its thread
};

class RemoteContext : public Context {
public:
    RemoteContext(std::shared_ptr<const RemoteModel> model, const ContextParams & params);
    ~RemoteContext() override;

    using Context::forward;

    const Model &                      model() const override { return *model_; }
    const std::vector<ForwardResult> & forward(std::span<const ForwardRequest> batch) override;
    void    kv_truncate(int32_t sequence, int32_t first) override { context_->kv_truncate(sequence, first); }
    int32_t n_ctx() const override { return context_->n_ctx(); }
    const ContextParams &     params() const override { return context_->params(); }
    ContextStats              stats() const override { return context_->stats(); }
    std::vector<PlacedWeight> placed_weights() const override { return context_->placed_weights(); }
    std::vector<GraphSplit>   graph_splits() const override { return context_->graph_splits(); }

private:
    std::shared_ptr<const RemoteModel> model_;
    GuardedThread                      thread_;
    Context *                          context_ = nullptr; // deleted on its thread
};

} // namespace buoy
