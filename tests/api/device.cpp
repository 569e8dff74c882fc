// The devices of this machine, and of others.
#include "buoy/device.h"

#include <cstdio>
#include <string>

void example_device(const std::string &) {
    buoy::prepare_devices({.exact = true}); // before they are opened
    buoy::add_rpc_servers({});              // "host:port" of machines that run llama-rpc-server
    for (const buoy::DeviceInfo & device : buoy::list_devices()) {
        std::printf("%s: %s, %zu MiB\n", device.name.c_str(), device.description.c_str(), device.memory_total >> 20);
    }
}
