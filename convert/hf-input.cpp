#include "buoy/error.h"
#include "buoy/message.h"
#include "hf-header.h"
#include "input.h"
#include "size-label.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace buoy {

namespace fs = std::filesystem;

namespace {

bool names_diffusion(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char * part :
         {"diffu", "diffcoder", "denois", "dllm", "dlm", "bd3lm", "mdm", "llada", "mmada", "dream", "sdar", "rnd1"}) {
        if (name.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

// The checkpoint's own code: its type, classes of auto_map, and files.
std::vector<std::string> code_names(const std::string & dir, const HfJson & config) {
    std::vector<std::string> names = {config.find_string({"model_type"}).value_or("")};
    if (const nlohmann::json * map = config.find({"auto_map"}); map != nullptr && map->is_object()) {
        for (const auto & [key, value] : map->items()) {
            for (const nlohmann::json & name : value.is_array() ? value : nlohmann::json::array({value})) {
                names.push_back(name.is_string() ? name.get<std::string>() : std::string());
            }
        }
    }
    std::error_code error;
    for (const fs::directory_entry & entry : fs::directory_iterator(dir, error)) {
        if (entry.path().extension() == ".py") {
            names.push_back(entry.path().filename().string());
        }
    }
    return names;
}

// An autoregressive architecture's name on a diffusion model that is not known here.
void check_causal(const std::string & dir, const HfJson & config, const ArchMapping & mapping) {
    for (const std::string & name : code_names(dir, config)) {
        if (!mapping.diffusion && names_diffusion(name)) {
            fail(config.path(), ": its code is ", in_quotes(name), ", a diffusion model that is not known here; as ",
                 hf_architecture(config),
                 " it would be run autoregressively. If that is what it is, insist with "
                 "`force_causal`");
        }
    }
}

} // namespace

ConvertInput open_hf(const std::string & dir, const QuantMix & mix, const LogCallback & log, bool force_causal) {
    const HfJson      config  = load_config(dir);
    const ArchMapping mapping = find_mapping(config);
    if (!force_causal) {
        check_causal(dir, config, mapping);
    }
    if (mapping.check != nullptr) {
        mapping.check(config);
    }
    const HfParams    params = read_params(config, mapping, dir);
    const Safetensors source = Safetensors::open_dir(dir);

    ConvertInput input;
    // The plan proves the config's sizes by the tensors; only then may they size the vocabulary.
    input.tensors       = plan_tensors(mapping, params, config, source, log);
    Tokenizer tokenizer = read_tokenizer(dir, config, params.n_vocab, log);
    if (mapping.mask_id >= 0 && mapping.mask_id < params.n_vocab) {
        tokenizer.special_ids.emplace("mask", static_cast<int32_t>(mapping.mask_id)); // unless the files name one
    }
    set_general(input.header, dir, mapping, config, input.tensors, mix.file_type);
    set_model(input.header, mapping, params);
    set_tokenizer(input.header, tokenizer);

    std::error_code error;
    for (const fs::directory_entry & entry : fs::directory_iterator(dir, error)) {
        if (entry.path().extension() != ".gguf") { // an earlier output
            input.files.push_back(entry.path().string());
        }
    }
    input.name        = printable(fs::weakly_canonical(dir, error).filename().string());
    input.size_label  = size_label(input.tensors);
    input.tokenizer   = tokenizer.file;
    input.needs_mask  = mapping.diffusion && mapping.mask;
    input.may_denoise = !mapping.diffusion && tokenizer.mask_named;
    input.model       = {mapping.arch, params.n_layer, params.n_head, params.layer_n_head_kv(0), params.moe.n_expert};
    return input;
}

} // namespace buoy
