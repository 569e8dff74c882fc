#include "engine/rpc/remote-model.h"

#include "buoy/error.h"

namespace buoy {

// Work refers to nothing that ends with the call: the thread may outlive it.

RemoteModel::RemoteModel(Load load, std::vector<std::string> servers, const ModelFile & file, ModelParams params,
                         const ContextParams & planned)
    : servers_(std::move(servers)), log_(params.log), thread_(servers_, params.log) {
    params.log        = thread_.gated(params.log);
    params.progress   = thread_.gated(params.progress);
    const auto loaded = std::make_shared<std::shared_ptr<const Model> *>(nullptr);
    thread_.run([=] { *loaded = new std::shared_ptr<const Model>(load(file, params, planned)); });
    model_ = *loaded;
}

RemoteModel::~RemoteModel() {
    try {
        thread_.run([model = model_] { delete model; });
    } catch (const Error &) { // a server is gone, and what it held is with it
    }
}

std::unique_ptr<Context> RemoteModel::make_context(const ContextParams & params) const {
    return std::make_unique<RemoteContext>(std::static_pointer_cast<const RemoteModel>(shared_from_this()), params);
}

RemoteContext::RemoteContext(std::shared_ptr<const RemoteModel> model, const ContextParams & params)
    : model_(std::move(model)), thread_(model_->servers(), model_->log()) {
    const auto made = std::make_shared<std::unique_ptr<Context>>();
    thread_.run([made, params, there = &model_->there()] { *made = there->make_context(params); });
    context_ = made->release();
}

RemoteContext::~RemoteContext() {
    try {
        thread_.run([context = context_] { delete context; });
    } catch (const Error &) { // as above
    }
}

const std::vector<ForwardResult> & RemoteContext::forward(std::span<const ForwardRequest> batch) {
    const auto kept    = std::make_shared<std::vector<ForwardRequest>>(batch.begin(), batch.end());
    const auto results = std::make_shared<const std::vector<ForwardResult> *>(nullptr);
    for (ForwardRequest & request : *kept) {
        for (Observer & observer : request.observers) {
            observer.sink     = thread_.gated(observer.sink);
            observer.probe    = thread_.gated(observer.probe);
            observer.edited   = thread_.gated(observer.edited);
            observer.products = thread_.gated(observer.products);
        }
    }
    thread_.run([kept, results, context = context_] { *results = &context->forward(*kept); });
    return **results;
}

} // namespace buoy
