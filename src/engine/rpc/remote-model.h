#pragma once

#include "buoy/context.h"
#include "engine/rpc/guard.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy {

// A model that may have weights on RPC servers. What it and its contexts held on one that is lost is never freed: that would wait for
// the server.
class RemoteModel : public Model {
public:
    using Load = std::shared_ptr<const Model> (*)(const ModelFile &, const ModelParams &, const ContextParams &);

    RemoteModel(Load load, const std::vector<std::string> & servers, const ModelFile & file, ModelParams params,
                const ContextParams & planned);
    ~RemoteModel() override;

    const ModelInfo &        info() const override { return (*model_)->info(); }
    const Vocab &            vocab() const override { return (*model_)->vocab(); }
    bool                     can_edit() const override { return (*model_)->can_edit(); }
    std::unique_ptr<Context> make_context(const ContextParams & params) const override;

    const RpcGuard & guard() const { return guard_; }
    const Model &    there() const { return **model_; }

private:
    RpcGuard                       guard_;
    std::shared_ptr<const Model> * model_ = nullptr; // made and deleted by guarded calls
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
    Context *                          context_ = nullptr; // as above
};

} // namespace buoy
