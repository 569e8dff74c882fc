#include "engine/rpc/remote-context.h"

#include "buoy/error.h"

namespace buoy {

// Work refers to nothing that ends with the call: the thread may outlive it.

RemoteContext::RemoteContext(const Load & load, const std::vector<std::string> & servers, ModelParams model,
                             const ContextParams & params)
    : thread_(servers, model.log) {
    model.log         = thread_.gated(model.log);
    model.progress    = thread_.gated(model.progress);
    const auto loaded = std::make_shared<std::unique_ptr<Context>>();
    thread_.run([=] { *loaded = load(model, params); });
    context_ = loaded->release();
}

RemoteContext::~RemoteContext() {
    try {
        thread_.run([context = context_] { delete context; });
    } catch (const Error &) { // a server is gone, and what it held is with it
    }
}

const ForwardResult & RemoteContext::forward(const ForwardRequest & request) {
    const auto kept   = std::make_shared<ForwardRequest>(request);
    const auto result = std::make_shared<const ForwardResult *>(nullptr);
    kept->sink        = thread_.gated(request.sink);
    kept->probe       = thread_.gated(request.probe);
    thread_.run([kept, result, context = context_] { *result = &context->forward(*kept); });
    return **result;
}

} // namespace buoy
