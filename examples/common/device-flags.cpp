#include "device-flags.h"

#include "buoy/bundled.h"
#include "buoy/device.h"
#include "console.h"
#include "suggest.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace {

constexpr buoy::Name<SplitMode> split_names[] = {{"none", SplitMode::none}, {"layer", SplitMode::layer}};

void set_shares(buoy::ModelParams & model, const std::string & where, const std::string & text) {
    model.tensor_split.clear();
    for (const std::string & part : split_list(where, text, ",/")) {
        const auto share = buoy::parse_number<float>(part);
        if (!share || !(*share >= 0.0f && *share < std::numeric_limits<float>::infinity())) {
            buoy::fail(where, ": ", buoy::in_quotes(part), " is not a share; expected numbers of 0 or more");
        }
        model.tensor_split.push_back(*share);
    }
}

void add_overrides(buoy::ModelParams & model, const std::string & where, const std::string & text) {
    for (const std::string & part : split_list(where, text)) {
        const size_t equals = part.rfind('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == part.size()) {
            buoy::fail(where, ": ", buoy::in_quotes(part), " is not REGEX=DEVICE");
        }
        model.overrides.push_back({part.substr(0, equals), part.substr(equals + 1)});
    }
}

} // namespace

int32_t parse_layers(const std::string & where, const std::string & text) {
    const auto    number   = buoy::parse_number<int32_t>(text);
    const int32_t n_layers = text == "all" ? whole_max : text == "auto" ? -1 : number.value_or(-2);
    if (n_layers < -1) {
        buoy::fail(where, ": ", buoy::in_quotes(text), " is not a number of layers, auto or all");
    }
    return n_layers;
}

void add_layers_flag(FlagTable & table, buoy::ModelParams & model) {
    table
        .call(
            layers_flag, "N",
            [&model](const std::string & where, const std::string & text) {
                model.n_gpu_layers = parse_layers(where, text);
            },
            layers_help)
        .with_default("auto")
        .with_env(layers_env)
        .with_setting("n_gpu_layers");
}

void add_device_flags(FlagTable & table, PlacementParams & o, buoy::ModelParams & model) {
    const auto setter = [&model](auto set) {
        return [&model, set](const std::string & where, const std::string & text) { set(model, where, text); };
    };
    table.list("-dev, --device", "NAMES", model.devices, "devices to use, comma-separated; none: only the CPU")
        .with_default("every GPU, RPC servers first")
        .with_env("LLAMA_ARG_DEVICE")
        .with_setting("devices");
    table
        .choice("-sm, --split-mode", split_names, o.split_mode,
                "distribute the layers over the devices (layer) or use only one device (none)")
        .with_default("layer, none with -mg")
        .with_env("LLAMA_ARG_SPLIT_MODE");
    table
        .number("-mg, --main-gpu", "INDEX", model.main_gpu, {0, 1e6}, "index of the only device to use, counted from 0")
        .with_default("0 with -sm none")
        .with_env("LLAMA_ARG_MAIN_GPU")
        .with_setting("main_gpu");
    table.call("-ts, --tensor-split", "SHARES", setter(set_shares), "share of the layers for each device, such as 3,1")
        .with_default("by free memory")
        .with_env("LLAMA_ARG_TENSOR_SPLIT")
        .with_setting("tensor_split");
    Flag & overrides =
        table.call("-ot, --override-tensor", "REGEX=DEVICE", setter(add_overrides),
                   "put weights whose names match the regular expression on that device (CPU is one); comma-separated");
    overrides.repeatable = true;
    overrides.with_env("LLAMA_ARG_OVERRIDE_TENSOR").with_setting("overrides");
    table.toggle("-cmoe, --cpu-moe", o.cpu_moe, true, "keep the experts of all layers on the CPU")
        .with_env("LLAMA_ARG_CPU_MOE");
    table
        .number("-ncmoe, --n-cpu-moe", "N", model.n_cpu_moe, {0, whole_max},
                "keep the experts of the first N layers on the CPU")
        .with_env("LLAMA_ARG_N_CPU_MOE")
        .with_setting("n_cpu_moe");
    table
        .list("--rpc", "SERVERS", o.rpc,
              "RPC servers to use (llama-rpc-server on machines you trust), host:port, comma-separated")
        .with_env("LLAMA_ARG_RPC");
    table.toggle("--list-devices", o.list_devices, true, "list available devices and exit");
}

void settle_devices(const PlacementParams & o, buoy::ModelParams & model) {
    if (o.cpu_moe) {
        model.n_cpu_moe = whole_max;
    }
    if (o.split_mode == SplitMode::none) {
        model.main_gpu = std::max(model.main_gpu, 0);
    } else if (o.split_mode == SplitMode::layer) {
        model.main_gpu = -1; // as llama.cpp has it
    }
}

std::string resolve_model(const std::string & name_or_path) {
    const char *                   directory = std::getenv("BUOY_MODELS");
    const std::vector<std::string> bundled   = {buoy::bundled_diffusion_model, buoy::bundled_autoregressive_model};
    std::error_code                error;
    const std::string              near = did_you_mean(name_or_path, bundled);
    if (std::find(bundled.begin(), bundled.end(), name_or_path) == bundled.end() && !near.empty() &&
        !std::filesystem::exists(name_or_path, error)) {
        buoy::fail("there is no model file ", buoy::in_quotes(name_or_path), near);
    }
    return buoy::find_model(name_or_path, directory != nullptr ? directory : "");
}

void print_devices() {
    for (const buoy::DeviceInfo & device : buoy::list_devices()) {
        // of the machine's own memory ggml calls all of it free
        const std::string free = device.is_gpu ? buoy::concat(", ", device.memory_free >> 20, " MiB free") : "";
        print_line("%-10s %s, %zu MiB%s", buoy::printable(device.name).c_str(),
                   buoy::printable(device.description).c_str(), device.memory_total >> 20, free.c_str());
    }
}
