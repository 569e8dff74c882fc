#include "engine/remote-engine.h"

#include "buoy/error.h"

namespace buoy {

// Work refers to nothing that ends with the call: the thread may outlive it.

RemoteEngine::RemoteEngine(const Load & load, const std::vector<std::string> & servers, ModelParams model,
                           const EngineParams & params)
    : thread_(servers, model.log) {
    model.log         = thread_.gated(model.log);
    model.progress    = thread_.gated(model.progress);
    const auto loaded = std::make_shared<std::unique_ptr<Engine>>();
    thread_.run([=] { *loaded = load(model, params); });
    engine_ = loaded->release();
}

RemoteEngine::~RemoteEngine() {
    try {
        thread_.run([engine = engine_] { delete engine; });
    } catch (const Error &) { // a server is gone, and what it held is with it
    }
}

const ForwardResult & RemoteEngine::forward(const ForwardRequest & request) {
    const auto kept   = std::make_shared<ForwardRequest>(request);
    const auto result = std::make_shared<const ForwardResult *>(nullptr);
    kept->sink        = thread_.gated(request.sink);
    kept->probe       = thread_.gated(request.probe);
    thread_.run([kept, result, engine = engine_] { *result = &engine->forward(*kept); });
    return **result;
}

} // namespace buoy
