#pragma once

#include "buoy/context.h"
#include "flags.h"

#include <optional>
#include <string>
#include <vector>

enum class SplitMode { none, layer };

// Which devices a model goes to, as llama.cpp's flags say it.
struct PlacementParams {
    std::vector<std::string> rpc;
    std::optional<SplitMode> split_mode;
    bool                     cpu_moe      = false;
    bool                     list_devices = false;
};

constexpr const char * layers_flag = "-ngl, --gpu-layers, --n-gpu-layers";
constexpr const char * layers_env  = "LLAMA_ARG_N_GPU_LAYERS";
constexpr const char * layers_help =
    "number of layers to put on GPUs, from the last one down (the head counts as one); auto: as many as fit; all";

// Of -ngl; -1 is auto.
int32_t parse_layers(const std::string & where, const std::string & text);

// What flags set must outlive the table.
void add_layers_flag(FlagTable & table, buoy::ModelParams & model);

// All others.
void add_device_flags(FlagTable & table, PlacementParams & o, buoy::ModelParams & model);

// What of the model's parameters several flags decide together.
void settle_devices(const PlacementParams & o, buoy::ModelParams & model);

// The file of a bundled model, for which BUOY_MODELS may name a directory; anything else as it is.
std::string resolve_model(const std::string & name_or_path);

// For --list-devices.
void print_devices();
