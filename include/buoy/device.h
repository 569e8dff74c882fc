#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace buoy {

struct DeviceInfo {
    std::string name;        // what ModelParams::devices takes: CPU, CUDA0, Vulkan0, …
    std::string description; // what the vendor calls it
    bool        is_gpu       = false;
    size_t      memory_free  = 0;
    size_t      memory_total = 0;
};

struct DeviceParams {
    // multiply in F32 where a backend would round to F16 (ggml's Vulkan backend), as FlashAttention::off promises
    bool exact = false;
};

// How the devices of this process are opened, which happens once: call it before list_devices(), add_rpc_servers() or
// load_context() do that. Not while other threads run.
void prepare_devices(const DeviceParams & params);

// Every compute device ggml knows in this process. Loads the dynamic backends on the first call.
std::vector<DeviceInfo> list_devices();

// Makes the devices of RPC servers, "host:port", known to this process; none of them is nothing to do. Throws Error where the
// build has no RPC backend or a server does not answer.
void add_rpc_servers(const std::vector<std::string> & endpoints);

} // namespace buoy
