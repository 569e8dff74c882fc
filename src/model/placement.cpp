#include "model/placement.h"

#include "buoy/device.h"
#include "buoy/error.h"
#include "io/printable.h"

#include <algorithm>
#include <mutex>

namespace buoy {

namespace {

void load_backends_once() {
    static std::once_flag flag;
    std::call_once(flag, [] { ggml_backend_load_all(); });
}

bool is_gpu(ggml_backend_dev_t dev) {
    const auto type = ggml_backend_dev_type(dev);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

std::vector<ggml_backend_dev_t> choose_gpus(const ModelParams & params) {
    std::vector<ggml_backend_dev_t> gpus;
    if (params.n_gpu_layers == 0) {
        return gpus;
    }
    if (params.devices.empty()) {
        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            if (is_gpu(ggml_backend_dev_get(i))) {
                gpus.push_back(ggml_backend_dev_get(i));
            }
        }
        return gpus;
    }
    for (const std::string & name : params.devices) {
        ggml_backend_dev_t dev = name == "none" ? nullptr : ggml_backend_dev_by_name(name.c_str());
        if (name != "none" && dev == nullptr) {
            std::string known;
            for (const DeviceInfo & info : list_devices()) {
                known += (known.empty() ? "" : ", ") + info.name;
            }
            fail("unknown device ", in_quotes(name), ", this build has: ", known);
        }
        if (dev != nullptr && is_gpu(dev)) {
            gpus.push_back(dev);
        }
    }
    return gpus;
}

} // namespace

std::vector<DeviceInfo> list_devices() {
    load_backends_once();
    std::vector<DeviceInfo> infos;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        DeviceInfo         info;
        info.name        = ggml_backend_dev_name(dev);
        info.description = ggml_backend_dev_description(dev);
        info.is_gpu      = is_gpu(dev);
        ggml_backend_dev_memory(dev, &info.memory_free, &info.memory_total);
        infos.push_back(std::move(info));
    }
    return infos;
}

Placement::Placement(const ModelParams & params, int32_t n_layer) {
    load_backends_once();
    cpu_ = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu_ == nullptr) {
        fail_runtime("no CPU backend could be loaded, so nothing can run");
    }
    const std::vector<ggml_backend_dev_t> gpus = choose_gpus(params);
    if (gpus.empty() && params.n_gpu_layers > 0 && params.log) {
        params.log(LogLevel::warn,
                   concat("-ngl ", params.n_gpu_layers, " has no effect: no GPU device was found, running on the CPU"));
    }

    // the last n_gpu layers and the head, divided over the GPUs by their free memory
    const int32_t n_slots = n_layer + 1;
    const int32_t n_gpu = gpus.empty() ? 0 : params.n_gpu_layers < 0 ? n_slots : std::min(params.n_gpu_layers, n_slots);
    std::vector<double> share_end;
    double              total = 0.0;
    for (ggml_backend_dev_t dev : gpus) {
        size_t free = 0, all = 0;
        ggml_backend_dev_memory(dev, &free, &all);
        total += free > 0 ? static_cast<double>(free) : 1.0;
        share_end.push_back(total);
    }
    layers_.assign(static_cast<size_t>(n_slots), cpu_);
    for (int32_t i = 0; i < n_gpu; i++) {
        const double at  = total * (i + 0.5) / n_gpu;
        const auto   dev = std::upper_bound(share_end.begin(), share_end.end(), at) - share_end.begin();
        layers_[static_cast<size_t>(n_slots - n_gpu + i)] = gpus[std::min(static_cast<size_t>(dev), gpus.size() - 1)];
    }
    for (ggml_backend_dev_t dev : gpus) {
        if (std::find(layers_.begin(), layers_.end(), dev) != layers_.end()) {
            devices_.push_back(dev);
        }
    }
    devices_.push_back(cpu_);
}

ggml_backend_dev_t Placement::device(int32_t il) const {
    // looking up a few rows of the embedding is not worth its size on a GPU
    return il < 0 ? cpu_ : layers_.at(static_cast<size_t>(il));
}

std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>> Placement::buffer_types(int32_t il,
                                                                                               bool    repack) const {
    std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>> types;
    if (device(il) != cpu_) {
        types.emplace_back(device(il), ggml_backend_dev_buffer_type(device(il)));
    }
    if (repack) {
        auto * get_extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu_), "ggml_backend_dev_get_extra_bufts"));
        for (auto * extra = get_extra != nullptr ? get_extra(cpu_) : nullptr; extra != nullptr && *extra != nullptr;
             extra++) {
            types.emplace_back(cpu_, *extra);
        }
    }
    types.emplace_back(cpu_, ggml_backend_dev_buffer_type(cpu_));
    return types;
}

} // namespace buoy
