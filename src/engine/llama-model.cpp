#include "engine/llama-model.h"

#include "arch/arch.h"
#include "base/run-apart.h"
#include "buoy/message.h"
#include "engine/llama-context.h"
#include "engine/memory-use.h"
#include "io/gguf-file.h"
#include "model/loader.h"
#include "model/placement.h"
#include "text/vocab-keys.h"

#include <algorithm>
#include <limits>

namespace buoy {

namespace {

constexpr int64_t n_layer_max = 512; // libllama's own limit, above which it aborts

// What an architecture assumes where the file is silent; one that is not ours is autoregressive.
ArchTraits traits_of(const std::string & name) {
    const Arch * arch = find_arch(name);
    return arch != nullptr ? arch->model.traits : ArchTraits();
}

std::string known_names() {
    std::string names;
    for (const std::string & name : arch_names()) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

// libllama aborts on numbers that it did not expect, so they are looked at before it sees them.
void check_keys(const GgufFile & file, const std::string & arch) {
    if (file.has(arch + ".block_count")) {
        file.require_int(arch + ".block_count", 1, n_layer_max);
    }
    for (const char * key :
         {".embedding_length", ".context_length", ".attention.head_count", ".attention.head_count_kv"}) {
        if (file.has(arch + key) && !file.is_array(arch + key)) {
            file.require_int(arch + key, 0, std::numeric_limits<int32_t>::max());
        }
    }
    const std::string scaling = file.get_string(arch + ".rope.scaling.type").value_or("none");
    if (scaling != "none" && scaling != "linear" && scaling != "yarn" && scaling != "longrope") {
        fail(printable(file.paths()[0]), ": key ", in_quotes(arch + ".rope.scaling.type"),
             ": expected none, linear, yarn or longrope, found ", in_quotes(scaling));
    }
    if (file.get_string("tokenizer.ggml.model").value_or("none") != "none") {
        read_vocab_keys(file);
    }
}

// libllama loads matrices of every type, and jumps to no function where the CPU can't multiply with them.
void check_tensors(const GgufFile & file) {
    const std::string suffix = ".weight"; // tables of ids have other names
    for (const GgufTensor & tensor : file.tensors()) {
        const bool is_weight = tensor.name.size() > suffix.size() &&
                               tensor.name.compare(tensor.name.size() - suffix.size(), suffix.size(), suffix) == 0;
        if (is_weight && !is_matrix_type(tensor.type)) {
            fail(printable(file.paths()[static_cast<size_t>(tensor.file)]), ": tensor ", in_quotes(tensor.name),
                 ": expected type f32, f16, bf16 or one of the quantised, found ", ggml_type_name(tensor.type));
        }
    }
}

// Architectures that are not ours have keys and shapes whose checks are libllama's assertions. So it loads such a file and plans a pass
// in a process that may die, first: on the CPU, without weights.
void try_apart(const std::vector<const char *> & paths) {
    constexpr ApartLimits limits = {.cpu_seconds = 60, .memory = uint64_t{1} << 46, .result_max = 1u << 20};

    const LlamaScope  ready; // libllama is initialised here, not there
    const ApartResult trial = run_apart(
        [&] {
            ggml_backend_dev_t no_devices[] = {nullptr};
            llama_model_params model_params = llama_model_default_params();
            model_params.devices            = no_devices;
            model_params.n_gpu_layers       = 0;
            model_params.use_extra_bufts    = false;
            model_params.no_alloc           = true;
            model_params.load_mode          = LLAMA_LOAD_MODE_NONE;

            std::vector<const char *> names = paths;
            const LlamaScope          quiet;
            const LlamaModelPtr       model(paths.size() == 1
                                                ? llama_model_load_from_file(names[0], model_params)
                                                : llama_model_load_from_splits(names.data(), names.size(), model_params));
            if (model) { // else it says why when it is loaded here
                llama_context_params context_params = llama_context_default_params();
                context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = 32;
                const LlamaContextPtr context(llama_init_from_model(model.get(), context_params));
            }
            return std::string();
        },
        limits);
    if (trial.end != ApartResult::End::done) {
        fail(printable(paths[0]), ": libllama ",
             trial.end == ApartResult::End::failed    ? "can't load it: " + trial.text
             : trial.end == ApartResult::End::crashed ? "crashes while it loads the model"
                                                      : "needs too much time or memory to load the model");
    }
}

bool report_progress(float done, void * data) {
    const auto & progress = *static_cast<const ProgressCallback *>(data);
    return !progress || progress(done);
}

} // namespace

LlamaModel::LlamaModel(const ModelFile & file, const ModelParams & params, const ContextParams & planned)
    : path_(file.path()), log_(params.log), vocab_(file) {
    load(file.gguf(), params, planned);
    read_info(file.gguf());
}

std::unique_ptr<Context> LlamaModel::make_context(const ContextParams & params) const {
    return std::make_unique<LlamaContext>(std::static_pointer_cast<const LlamaModel>(shared_from_this()), params);
}

void LlamaModel::load(const GgufFile & file, const ModelParams & params, const ContextParams & planned) {
    info_.arch = file.require_string("general.architecture");
    check_keys(file, info_.arch);
    check_tensors(file);
    info_.traits = read_traits(file, info_.arch, traits_of(info_.arch), params);
    if (info_.traits.attention == AttentionKind::block_causal) {
        fail(printable(path_), ": the model has block-causal attention (blocks of ", info_.traits.block_length,
             "), and libllama only runs full or causal attention");
    }

    const auto      n_layer = file.get_int(info_.arch + ".block_count").value_or(1);
    const Placement placement(params, file, static_cast<int32_t>(n_layer), estimate_memory(file, info_.arch, planned));
    std::vector<ggml_backend_dev_t> devices = placement.devices();
    devices.back()                          = nullptr; // the CPU, which libllama always has; its list ends with null
    std::vector<float> shares(std::max(llama_max_devices(), devices.size())); // layers, the head counted as one
    for (int32_t il = 0; il <= n_layer; il++) {
        const auto found = std::find(devices.begin(), devices.end(), placement.device(il));
        if (found != devices.end()) {
            shares[static_cast<size_t>(found - devices.begin())]++;
        }
    }
    std::vector<std::string>                      patterns; // one for each weight that is elsewhere
    std::vector<llama_model_tensor_buft_override> overrides;
    for (const auto & [name, device] : placement.exceptions()) {
        patterns.push_back("^" + name + "$");
    }
    for (const auto & [name, device] : placement.exceptions()) {
        overrides.push_back({patterns[overrides.size()].c_str(), ggml_backend_dev_buffer_type(device)});
    }
    overrides.push_back({nullptr, nullptr});

    llama_model_params load_params          = llama_model_default_params();
    load_params.devices                     = devices.data();
    load_params.n_gpu_layers                = placement.n_offloaded();
    load_params.tensor_split                = shares.data();
    load_params.tensor_buft_overrides       = overrides.data();
    load_params.load_mode                   = params.use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    load_params.use_extra_bufts             = params.use_repack;
    load_params.progress_callback           = report_progress;
    load_params.progress_callback_user_data = const_cast<ProgressCallback *>(&params.progress);

    std::vector<const char *> paths;
    for (const std::string & path : file.paths()) {
        paths.push_back(path.c_str());
    }
    try_apart(paths);
    const LlamaScope scope(log_);
    model_.reset(paths.size() == 1 ? llama_model_load_from_file(paths[0], load_params)
                                   : llama_model_load_from_splits(paths.data(), paths.size(), load_params));
    if (!model_) {
        const std::string why = scope.error_or("loading was cancelled");
        if (why.find("unknown model architecture") != std::string::npos) {
            fail(printable(path_), ": key 'general.architecture': expected ", known_names(), ", found ",
                 in_quotes(info_.arch), ", which libllama does not know either");
        }
        fail(printable(path_), ": ", printable(why));
    }
    check_causal(file, info_.arch, info_.traits, params);
}

void LlamaModel::read_info(const GgufFile & file) {
    const llama_model * model = model_.get();
    info_.path                = path_;
    info_.name                = file.get_string("general.name").value_or("");
    info_.n_vocab             = llama_vocab_n_tokens(llama_model_get_vocab(model));
    info_.n_embd              = llama_model_n_embd(model);
    info_.n_layer             = llama_model_n_layer(model);
    info_.n_head              = llama_model_n_head(model);
    info_.n_head_kv           = llama_model_n_head_kv(model);
    info_.n_ctx_train         = llama_model_n_ctx_train(model);
    info_.n_bytes             = llama_model_size(model);

    const int64_t head_dim = info_.n_head > 0 ? info_.n_embd / info_.n_head : 0;
    info_.head_dim = static_cast<int32_t>(file.get_int(info_.arch + ".attention.key_length").value_or(head_dim));

    const int64_t n_rot = file.get_int(info_.arch + ".rope.dimension_count").value_or(info_.head_dim);
    rope_interleaved_   = llama_model_rope_type(model) == LLAMA_ROPE_TYPE_NORM;
    n_rotated_          = static_cast<int32_t>(n_rot);
}

} // namespace buoy
