#include "model/devices.h"

#include "buoy/device.h"
#include "buoy/message.h"
#include "text/llama-handles.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

namespace buoy {

namespace {

std::vector<ggml_backend_dev_t> all_devices() {
    std::vector<ggml_backend_dev_t> devices;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        devices.push_back(ggml_backend_dev_get(i));
    }
    return devices;
}

std::vector<ggml_backend_dev_t> default_gpus() {
    std::vector<ggml_backend_dev_t> gpus, integrated;
    for (ggml_backend_dev_t device : all_devices()) {
        if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_IGPU) {
            integrated.push_back(device);
        } else if (is_gpu(device)) {
            gpus.push_back(device);
        }
    }
    std::stable_partition(gpus.begin(), gpus.end(), is_rpc);
    return gpus.empty() ? integrated : gpus; // a GPU that shares the CPU's memory is no help to one of its own
}

// ggml passes over libraries beside the program that can't be loaded, such as a GPU's without its driver. Trying once more says why.
void tell_unloaded() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path  program = fs::read_symlink("/proc/self/exe", error);
    for (const auto & [file, name] : {std::make_pair("libggml-cuda.so", "CUDA"),
                                      {"libggml-hip.so", "ROCm"},
                                      {"libggml-vulkan.so", "Vulkan"},
                                      {"libggml-sycl.so", "SYCL"}}) {
        const fs::path path = program.parent_path() / file;
        if (!error && fs::exists(path, error) && ggml_backend_reg_by_name(name) == nullptr) {
            ggml_backend_load(path.c_str());
        }
    }
}

} // namespace

void prepare_devices(const DeviceParams & params) {
    if (params.exact) { // ggml's Vulkan backend has no other switches
        for (const char * name : {"GGML_VK_DISABLE_F16", "GGML_VK_DISABLE_COOPMAT", "GGML_VK_DISABLE_COOPMAT2"}) {
            setenv(name, "1", 0);
        }
    }
}

const std::string & load_backends() {
    static std::once_flag flag;
    static std::string    warning;
    std::call_once(flag, [] {
        const LlamaScope scope;
        ggml_backend_load_all();
        tell_unloaded();
        warning = scope.error_or("");
    });
    return warning;
}

bool is_gpu(ggml_backend_dev_t device) {
    const auto type = ggml_backend_dev_type(device);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

bool is_rpc(ggml_backend_dev_t device) {
    return std::strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "RPC") == 0;
}

ggml_backend_dev_t find_device(const std::string & setting, const std::string & name) {
    std::string known;
    for (ggml_backend_dev_t device : all_devices()) {
        if (name == ggml_backend_dev_name(device)) {
            return device;
        }
        known += (known.empty() ? "" : ", ") + std::string(ggml_backend_dev_name(device));
    }
    for (ggml_backend_dev_t device : all_devices()) {
        if (!is_rpc(device) && name == ggml_backend_buft_name(ggml_backend_dev_buffer_type(device))) {
            return device;
        }
    }
    fail(setting, ": unknown device ", in_quotes(name), ", the devices are: ", known);
}

std::vector<ggml_backend_dev_t> choose_gpus(const ModelParams & params) {
    std::vector<ggml_backend_dev_t> gpus;
    const bool                      none =
        std::find(params.devices.begin(), params.devices.end(), std::string("none")) != params.devices.end();
    if (none && params.devices.size() > 1) {
        fail("`devices`: none can't be combined with other devices");
    }
    for (const std::string & name : params.devices) {
        ggml_backend_dev_t device = name == "none" ? nullptr : find_device("`devices`", name);
        if (device != nullptr && std::find(gpus.begin(), gpus.end(), device) != gpus.end()) {
            fail("`devices`: ", in_quotes(name), " is listed twice");
        }
        if (device != nullptr && is_gpu(device)) {
            gpus.push_back(device);
        }
    }
    gpus = params.devices.empty() ? default_gpus() : gpus;
    if (params.tensor_split.size() > gpus.size() && !gpus.empty()) {
        fail("`tensor_split` has ", params.tensor_split.size(), " shares, expected at most one for each of the ",
             gpus.size(), " devices");
    }
    if (params.main_gpu >= 0 && !gpus.empty()) {
        if (static_cast<size_t>(params.main_gpu) >= gpus.size()) {
            fail("`main_gpu` is ", params.main_gpu, ", expected 0 to ", gpus.size() - 1, ": the devices in use are ",
                 gpus.size());
        }
        return {gpus[static_cast<size_t>(params.main_gpu)]};
    }
    return gpus;
}

} // namespace buoy
