#include "engine/ggml-model.h"

#include "engine/ggml-context.h"
#include "engine/memory-use.h"

namespace buoy {

GgmlModel::GgmlModel(const ModelFile & file, const Arch & arch, const ModelParams & params,
                     const ContextParams & planned)
    : loaded_(file.gguf(), arch.model, params, estimate_memory(file.gguf(), arch.model.name, planned)),
      recipe_(arch.graph), log_(params.log), vocab_(file) {}

std::unique_ptr<Context> GgmlModel::make_context(const ContextParams & params) const {
    return std::make_unique<GgmlContext>(std::static_pointer_cast<const GgmlModel>(shared_from_this()), params);
}

} // namespace buoy
