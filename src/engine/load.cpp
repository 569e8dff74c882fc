#include "arch/arch.h"
#include "buoy/context.h"
#include "buoy/message.h"
#include "engine/ggml-model.h"
#include "engine/llama-model.h"
#include "engine/rpc/connections.h"
#include "engine/rpc/remote-model.h"
#include "io/gguf-file.h"
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
std::vector<std::string> servers_of(const ModelParams & params) {
    load_backends();
    std::vector<ggml_backend_dev_t> devices = choose_gpus(params);
    for (const TensorOverride & override : params.overrides) {
        devices.push_back(find_device("`overrides`", override.device));
    }
    std::vector<std::string> servers;
    for (ggml_backend_dev_t device : devices) {
        if (const std::string server = server_of(device); !server.empty()) {
            servers.push_back(server);
        }
    }
    return servers;
}

using Load = std::shared_ptr<const Model> (*)(const ModelFile &, const ModelParams &, const ContextParams &);

std::shared_ptr<const Model> load_there(Load load, const ModelFile & file, const ModelParams & params,
                                        const ContextParams & planned) {
    const std::vector<std::string> servers = servers_of(params);
    if (servers.empty()) {
        return load(file, params, planned);
    }
    return std::make_shared<const RemoteModel>(load, servers, file, params, planned);
}

std::shared_ptr<const Model> load_llama_here(const ModelFile & file, const ModelParams & params,
                                             const ContextParams & planned) {
    return std::make_shared<const LlamaModel>(file, params, planned);
}

std::shared_ptr<const Model> load_here(const ModelFile & file, const ModelParams & params,
                                       const ContextParams & planned) {
    const LlamaScope  quiet(params.log); // ggml's own messages go where ours go
    const std::string name = file.gguf().require_string("general.architecture");
    const Arch *      arch = find_arch(name);
    // a mixture of experts under a dense model's name (Mixtral) is libllama's
    const bool sparse = file.gguf().get_int(name + ".expert_count").value_or(0) > 0;
    if (arch == nullptr || (sparse && !arch->model.traits.experts)) {
        return load_llama_here(file, params, planned);
    }
    return std::make_shared<const GgmlModel>(file, *arch, params, planned);
}

} // namespace

ModelFile::ModelFile(const std::string & path)
    : path_(path), file_(std::make_shared<const GgufFile>(GgufFile::open(path))) {}

Vocab ModelFile::vocab() const { return Vocab::load(*file_); }

std::shared_ptr<const Model> load_model(const ModelFile & file, const ModelParams & params,
                                        const ContextParams & planned) {
    return load_there(load_here, file, params, planned);
}

std::shared_ptr<const Model> load_llama_model(const ModelFile & file, const ModelParams & params,
                                              const ContextParams & planned) {
    return load_there(load_llama_here, file, params, planned);
}

std::unique_ptr<Context> load_context(const ModelFile & file, const ModelParams & model, const ContextParams & params) {
    return load_model(file, model, params)->make_context(params);
}

void check_can_edit(const Model & model) {
    if (!model.can_edit()) {
        std::string names;
        for (const std::string & name : arch_names()) {
            names += (names.empty() ? "" : ", ") + name;
        }
        fail("attention edits need an architecture that buoy runs itself (", names, "), and ",
             in_quotes(model.info().arch), " runs through libllama");
    }
}

} // namespace buoy
