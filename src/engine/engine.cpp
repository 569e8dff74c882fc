#include "buoy/engine.h"

#include "buoy/error.h"
#include "engine/ggml-engine.h"
#include "engine/llama-engine.h"
#include "engine/llama-handles.h"
#include "engine/memory-use.h"
#include "engine/remote-engine.h"
#include "model/devices.h"

namespace buoy {

std::string tap_name(Tap tap, int32_t layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    switch (tap) {
        case Tap::attn_scores: return block + "attn.hook_attn_scores";
        case Tap::pattern: return block + "attn.hook_pattern";
        case Tap::rot_q: return block + "attn.hook_rot_q";
        case Tap::rot_k: return block + "attn.hook_rot_k";
        case Tap::v: return block + "attn.hook_v";
        case Tap::resid_post: return block + "hook_resid_post";
    }
    return block;
}

namespace {

bool has_rpc_devices() {
    load_backends();
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        if (is_rpc(ggml_backend_dev_get(i))) {
            return true;
        }
    }
    return false;
}

std::unique_ptr<Engine> load_here(const ModelParams & model, const EngineParams & params) {
    const LlamaScope  quiet(model.log); // ggml's own messages go where ours go
    const GgufFile    file = GgufFile::open(model.path);
    const std::string name = file.require_string("general.architecture");
    const Arch *      arch = find_arch(name);
    // a mixture of experts under a dense model's name (Mixtral) is libllama's
    const bool sparse = file.get_int(name + ".expert_count").value_or(0) > 0;
    if (arch == nullptr || (sparse && !arch->defaults.sparse)) {
        return std::make_unique<LlamaEngine>(model, params);
    }
    auto loaded = std::make_unique<const Model>(file, *arch, model, estimate_memory(file, name, params));
    return std::make_unique<GgmlEngine>(std::move(loaded), params, model.log);
}

std::unique_ptr<Engine> load_llama_here(const ModelParams & model, const EngineParams & params) {
    return std::make_unique<LlamaEngine>(model, params);
}

} // namespace

std::unique_ptr<Engine> load_engine(const ModelParams & model, const EngineParams & params) {
    if (has_rpc_devices()) {
        return std::make_unique<RemoteEngine>(load_here, model, params);
    }
    return load_here(model, params);
}

std::unique_ptr<Engine> load_llama_engine(const ModelParams & model, const EngineParams & params) {
    if (has_rpc_devices()) {
        return std::make_unique<RemoteEngine>(load_llama_here, model, params);
    }
    return load_llama_here(model, params);
}

} // namespace buoy
