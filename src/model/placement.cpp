#include "model/placement.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "io/gguf-file.h"
#include "model/devices.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <regex>

namespace buoy {

namespace {

// The layer in "blk.12.attn_q.weight".
std::optional<int32_t> layer_of(const std::string & name) {
    const std::string prefix = "blk.";
    const size_t      dot    = name.find('.', prefix.size());
    if (name.compare(0, prefix.size(), prefix) != 0 || dot == std::string::npos) {
        return std::nullopt;
    }
    return parse_number<int32_t>(name.substr(prefix.size(), dot - prefix.size()));
}

bool is_expert(const std::string & name) {
    return name.find("exps.") != std::string::npos && name.find(".ffn_") != std::string::npos;
}

std::regex compile(const std::string & pattern) {
    try {
        return std::regex(pattern);
    } catch (const std::regex_error & error) {
        fail("`overrides`: ", in_quotes(pattern), " is an invalid regular expression: ", printable(error.what()));
    }
}

void warn(const ModelParams & params, const std::string & text) {
    if (params.log) {
        params.log(LogLevel::warn, text);
    }
}

// Without the weights that are elsewhere.
SlotSizes slot_sizes(const GgufFile & file, int32_t n_layer, const std::map<std::string, ggml_backend_dev_t> & except) {
    SlotSizes  sizes;
    const bool tied = file.find_tensor("output.weight") == nullptr;
    sizes.slots.resize(static_cast<size_t>(n_layer) + 1);
    for (const GgufTensor & tensor : file.tensors()) {
        if (except.count(tensor.name) > 0) {
            continue;
        }
        const bool    embed = tensor.name == "token_embd.weight";
        const int32_t slot  = std::clamp(layer_of(tensor.name).value_or(n_layer), 0, n_layer);
        sizes.embed += embed ? tensor.size : 0;
        sizes.slots[static_cast<size_t>(slot)] += embed && !tied ? 0 : tensor.size;
    }
    return sizes;
}

std::vector<double> shares_of(const ModelParams & params, const std::vector<size_t> & free) {
    std::vector<double> shares(free.begin(), free.end());
    if (!params.tensor_split.empty() && params.main_gpu < 0) {
        shares.assign(free.size(), 0.0); // those without a share get nothing
        std::copy(params.tensor_split.begin(), params.tensor_split.end(), shares.begin());
    }
    double total = 0.0;
    for (double share : shares) {
        if (!(share >= 0.0) || !std::isfinite(share)) {
            fail("`tensor_split`: ", share, " is not a share, expected 0 or more");
        }
        total += share;
    }
    if (!(total > 0.0)) {
        fail("`tensor_split`: no device has a share");
    }
    return shares;
}

std::vector<size_t> free_memory(const std::vector<ggml_backend_dev_t> & devices) {
    std::vector<size_t> sizes;
    for (ggml_backend_dev_t device : devices) {
        size_t free = 0, total = 0;
        ggml_backend_dev_memory(device, &free, &total);
        // a device that does not tell gets what is asked for
        sizes.push_back(total > 0 ? std::max<size_t>(free, 1) : std::numeric_limits<size_t>::max());
    }
    return sizes;
}

} // namespace

Placement::Placement(const ModelParams & params, const GgufFile & file, int32_t n_layer, const MemoryUse & use) {
    if (const std::string & warning = load_backends(); !warning.empty()) {
        warn(params, warning);
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == nullptr) {
        fail_runtime("no CPU backend could be loaded, so nothing can run");
    }
    embed_   = cpu;
    devices_ = {cpu};
    layers_.assign(static_cast<size_t>(n_layer) + 1, cpu);
    read_overrides(params, file);
    place_layers(params, file, use);

    std::vector<ggml_backend_dev_t> used = layers_;
    for (const auto & [name, device] : exceptions_) {
        used.push_back(device);
    }
    for (ggml_backend_dev_t device : used) {
        if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) {
            devices_.insert(devices_.end() - 1, device);
        }
    }
}

void Placement::read_overrides(const ModelParams & params, const GgufFile & file) {
    for (const TensorOverride & override : params.overrides) {
        const std::regex   regex  = compile(override.pattern);
        ggml_backend_dev_t device = find_device("`overrides`", override.device);
        bool               found  = false;
        for (const GgufTensor & tensor : file.tensors()) {
            if (std::regex_search(tensor.name, regex)) {
                exceptions_.emplace(tensor.name, device);
                found = true;
            }
        }
        if (!found) {
            warn(params, concat("`overrides` has no effect: no tensor's name matches ", in_quotes(override.pattern)));
        }
    }
    bool any_expert = false;
    for (const GgufTensor & tensor : file.tensors()) {
        const std::optional<int32_t> layer = is_expert(tensor.name) ? layer_of(tensor.name) : std::nullopt;
        any_expert                         = any_expert || layer;
        if (layer && *layer < params.n_cpu_moe) {
            exceptions_.emplace(tensor.name, cpu());
        }
    }
    if (params.n_cpu_moe > 0 && !any_expert) {
        warn(params, "`n_cpu_moe` has no effect: the model has no experts");
    }
}

void Placement::place_layers(const ModelParams & params, const GgufFile & file, const MemoryUse & use) {
    const std::vector<ggml_backend_dev_t> gpus = choose_gpus(params);
    if (gpus.empty() && params.n_gpu_layers > 0) {
        warn(params, params.n_gpu_layers == std::numeric_limits<int32_t>::max()
                         ? std::string("`n_gpu_layers` all has no effect: no GPU device was found, running on the CPU")
                         : concat("`n_gpu_layers` ", params.n_gpu_layers,
                                  " has no effect: no GPU device was found, running on the CPU"));
    }
    if (gpus.empty() && (!params.tensor_split.empty() || params.main_gpu > 0)) {
        warn(params, concat(params.tensor_split.empty() ? "`main_gpu`" : "`tensor_split`",
                            " has no effect: no GPU device is in use"));
    }
    if (gpus.empty() || params.n_gpu_layers == 0) {
        return;
    }
    const auto                n_slots = static_cast<int32_t>(layers_.size());
    const std::vector<size_t> free    = free_memory(gpus);
    const std::vector<double> shares  = shares_of(params, free);
    n_offloaded_                      = params.n_gpu_layers < 0
                                            ? count_fitting(slot_sizes(file, n_slots - 1, exceptions_), use, free, shares)
                                            : std::min(params.n_gpu_layers, n_slots);

    const std::vector<size_t> of_slots = divide_slots(n_offloaded_, shares);
    for (size_t i = 0; i < of_slots.size(); i++) {
        layers_[layers_.size() - of_slots.size() + i] = gpus[of_slots[i]];
    }
    // looking up rows is worth the embedding's size where it saves a way over the bus in every pass
    embed_ = n_offloaded_ == n_slots ? layers_[0] : embed_;
    if (params.n_gpu_layers < 0 && n_offloaded_ < n_slots && params.log) {
        params.log(LogLevel::notice,
                   concat("the devices' memory holds ", n_offloaded_, " of ", n_slots - 1,
                          " layers and the head; the rest stays on the CPU (set `n_gpu_layers` to override)"));
    }
}

Placement::BufferTypes Placement::buffer_types(const std::string & name, int32_t il, bool repack) const {
    BufferTypes              types;
    const auto               exception = exceptions_.find(name);
    const ggml_backend_dev_t chosen    = exception != exceptions_.end() ? exception->second : device(il);
    if (chosen != cpu()) {
        types.emplace_back(chosen, ggml_backend_dev_buffer_type(chosen));
    }
    if (repack) {
        auto * get_extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu()), "ggml_backend_dev_get_extra_bufts"));
        for (auto * extra = get_extra != nullptr ? get_extra(cpu()) : nullptr; extra != nullptr && *extra != nullptr;
             extra++) {
            types.emplace_back(cpu(), *extra);
        }
    }
    types.emplace_back(cpu(), ggml_backend_dev_buffer_type(cpu()));
    return types;
}

bool Placement::has_layout(const char * name) const {
    const BufferTypes types = buffer_types("", -1, true);
    return std::any_of(types.begin(), types.end(),
                       [&](const auto & type) { return std::strcmp(ggml_backend_buft_name(type.second), name) == 0; });
}

} // namespace buoy
