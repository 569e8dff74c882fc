#pragma once

#include "buoy/model.h"
#include "flags.h"

#include <optional>
#include <string>
#include <vector>

enum class SplitMode { none, layer };

// Which devices a model goes to, as llama.cpp's flags say it.
struct DeviceOptions {
    std::vector<std::string> rpc;
    std::optional<SplitMode> split_mode;
    bool                     cpu_moe      = false;
    bool                     list_devices = false;
};

// What they set must outlive the table.
void add_device_flags(FlagTable & table, DeviceOptions & o, buoy::ModelParams & model);

// What of the model's parameters several flags decide together.
void settle_devices(const DeviceOptions & o, buoy::ModelParams & model);

// For --list-devices.
void print_devices();
