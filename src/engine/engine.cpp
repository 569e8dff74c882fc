#include "buoy/context.h"

#include "buoy/error.h"
#include "engine/ggml-context.h"
#include "engine/llama-context.h"
#include "engine/memory-use.h"
#include "engine/rpc/address.h"
#include "engine/rpc/remote-context.h"
#include "model/devices.h"
#include "text/llama-handles.h"

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

// That the model may have weights on.
std::vector<std::string> servers_of(const ModelParams & model) {
    load_backends();
    std::vector<ggml_backend_dev_t> devices = choose_gpus(model);
    for (const TensorOverride & override : model.overrides) {
        devices.push_back(find_device("--override-tensor", override.device));
    }
    std::vector<std::string> servers;
    for (ggml_backend_dev_t device : devices) {
        if (const std::string server = server_of(device); !server.empty()) {
            servers.push_back(server);
        }
    }
    return servers;
}

std::unique_ptr<Context> load_there(const RemoteContext::Load & load, const ModelParams & model,
                                    const ContextParams & params) {
    const std::vector<std::string> servers = servers_of(model);
    if (servers.empty()) {
        return load(model, params);
    }
    return std::make_unique<RemoteContext>(load, servers, model, params);
}

std::unique_ptr<Context> load_here(const ModelParams & model, const ContextParams & params) {
    const LlamaScope  quiet(model.log); // ggml's own messages go where ours go
    const GgufFile    file = GgufFile::open(model.path);
    const std::string name = file.require_string("general.architecture");
    const Arch *      arch = find_arch(name);
    // a mixture of experts under a dense model's name (Mixtral) is libllama's
    const bool sparse = file.get_int(name + ".expert_count").value_or(0) > 0;
    if (arch == nullptr || (sparse && !arch->defaults.sparse)) {
        return std::make_unique<LlamaContext>(model, params);
    }
    auto loaded = std::make_unique<const Model>(file, *arch, model, estimate_memory(file, name, params));
    return std::make_unique<GgmlContext>(std::move(loaded), params, model.log);
}

std::unique_ptr<Context> load_llama_here(const ModelParams & model, const ContextParams & params) {
    return std::make_unique<LlamaContext>(model, params);
}

} // namespace

std::unique_ptr<Context> load_context(const ModelParams & model, const ContextParams & params) {
    return load_there(load_here, model, params);
}

std::unique_ptr<Context> load_llama_context(const ModelParams & model, const ContextParams & params) {
    return load_there(load_llama_here, model, params);
}

} // namespace buoy
