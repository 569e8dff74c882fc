#include "buoy/error.h"
#include "buoy/message.h"
#include "hf-header.h"
#include "input.h"
#include "size-label.h"

#include <filesystem>

namespace buoy {

namespace fs = std::filesystem;

ConvertInput open_hf(const std::string & dir, const QuantMix & mix, const LogCallback & log) {
    const HfJson      config  = HfJson::load((fs::path(dir) / "config.json").string());
    const ArchMapping mapping = find_mapping(config);
    if (mapping.check != nullptr) {
        mapping.check(config);
    }
    const HfParams    params = read_params(config, mapping);
    const Safetensors source = Safetensors::open_dir(dir);

    ConvertInput input;
    // The plan proves the config's sizes by the tensors; only then may they size the vocabulary.
    input.tensors             = plan_tensors(mapping, params, config, source, log);
    const Tokenizer tokenizer = read_tokenizer(dir, config, params.n_vocab, log);
    set_general(input.header, dir, mapping, config, input.tensors, mix.file_type);
    set_model(input.header, mapping, params);
    set_tokenizer(input.header, tokenizer);

    std::error_code error;
    for (const fs::directory_entry & entry : fs::directory_iterator(dir, error)) {
        if (entry.path().extension() != ".gguf") { // an earlier output
            input.files.push_back(entry.path().string());
        }
    }
    input.name       = printable(fs::weakly_canonical(dir, error).filename().string());
    input.size_label = size_label(input.tensors);
    input.tokenizer  = tokenizer.file;
    input.diffusion  = mapping.diffusion;
    input.model      = {mapping.arch, params.n_layer, params.n_head, params.n_head_kv, params.moe.n_expert};
    return input;
}

} // namespace buoy
