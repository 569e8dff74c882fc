#include "engine/rpc/remote-model.h"

#include <utility>

namespace buoy {

// Guarded work refers to nothing that ends with the call, because it may outlive that.

RemoteModel::RemoteModel(Load load, const std::vector<std::string> & servers, const ModelFile & file,
                         ModelParams params, const ContextParams & planned)
    : guard_(servers, params.log) {
    params.log        = guard_.gated(params.log);
    params.progress   = guard_.gated(params.progress);
    const auto loaded = std::make_shared<std::shared_ptr<const Model> *>(nullptr);
    guard_.run([=] { *loaded = new std::shared_ptr<const Model>(load(file, params, planned)); });
    model_ = *loaded;
}

RemoteModel::~RemoteModel() {
    guard_.try_run([model = model_] { delete model; });
}

std::unique_ptr<Context> RemoteModel::make_context(const ContextParams & params) const {
    return std::make_unique<RemoteContext>(std::static_pointer_cast<const RemoteModel>(shared_from_this()), params);
}

RemoteContext::RemoteContext(std::shared_ptr<const RemoteModel> model, const ContextParams & params)
    : model_(std::move(model)) {
    const auto made = std::make_shared<std::unique_ptr<Context>>();
    model_->guard().run([made, params, there = &model_->there()] { *made = there->make_context(params); });
    context_ = made->release();
}

RemoteContext::~RemoteContext() {
    model_->guard().try_run([context = context_] { delete context; });
}

const std::vector<ForwardResult> & RemoteContext::forward(std::span<const ForwardRequest> batch) {
    const RpcGuard & guard   = model_->guard();
    const auto       kept    = std::make_shared<std::vector<ForwardRequest>>(batch.begin(), batch.end());
    const auto       results = std::make_shared<const std::vector<ForwardResult> *>(nullptr);
    for (ForwardRequest & request : *kept) {
        for (Observer & observer : request.observers) {
            observer.sink     = guard.gated(observer.sink);
            observer.probe    = guard.gated(observer.probe);
            observer.edited   = guard.gated(observer.edited);
            observer.products = guard.gated(observer.products);
        }
    }
    guard.run([kept, results, context = context_] { *results = &context->forward(*kept); });
    return **results;
}

} // namespace buoy
