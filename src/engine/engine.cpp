#include "buoy/engine.h"

#include "buoy/error.h"
#include "engine/ggml-engine.h"
#include "engine/llama-handles.h"

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

std::unique_ptr<Engine> load_engine(const ModelParams & model, const EngineParams & params) {
    const LlamaScope  quiet(model.log); // ggml's own messages go where ours go
    const GgufFile    file = GgufFile::open(model.path);
    const std::string name = file.require_string("general.architecture");
    const Arch *      arch = find_arch(name);
    // a mixture of experts under a dense model's name (Mixtral) is libllama's
    const bool sparse = file.get_int(name + ".expert_count").value_or(0) > 0;
    if (arch == nullptr || (sparse && !arch->defaults.sparse)) {
        return load_llama_engine(model, params);
    }
    return std::make_unique<GgmlEngine>(std::make_unique<const Model>(file, *arch, model), params);
}

} // namespace buoy
