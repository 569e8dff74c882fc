#include "base/fail.h"
#include "base/printable.h"
#include "buoy/device.h"
#include "engine/rpc/address.h"
#include "engine/rpc/guard.h"
#include "engine/rpc/server.h"
#include "model/devices.h"

#include <ggml-backend.h>

#include <memory>

namespace buoy {

void add_rpc_servers(const std::vector<std::string> & endpoints) {
    using AddServer = ggml_backend_reg_t (*)(const char * endpoint);
    if (endpoints.empty()) {
        return;
    }
    load_backends();
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    void * found = rpc == nullptr ? nullptr : ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server");
    if (found == nullptr) {
        fail("RPC servers can't be used: this build has no RPC backend (BUOY_RPC=ON makes one)");
    }
    auto * add_server = reinterpret_cast<AddServer>(found);
    for (const std::string & endpoint : endpoints) {
        check_server(endpoint);
        const auto server = std::make_shared<ggml_backend_reg_t>(nullptr);
        GuardedThread({endpoint}).run([=] { *server = add_server(endpoint.c_str()); });
        if (*server == nullptr) {
            fail("RPC server ", in_quotes(endpoint), ": it has no devices");
        }
        ggml_backend_register(*server);
    }
}

std::vector<DeviceInfo> list_devices() {
    load_backends();
    std::vector<DeviceInfo> infos;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        DeviceInfo         info;
        info.name             = ggml_backend_dev_name(device);
        info.description      = ggml_backend_dev_description(device);
        info.is_gpu           = is_gpu(device);
        const auto ask_memory = [&] { ggml_backend_dev_memory(device, &info.memory_free, &info.memory_total); };
        if (is_rpc(device)) {
            GuardedThread({server_of(device)}).run(ask_memory);
        } else {
            ask_memory();
        }
        infos.push_back(std::move(info));
    }
    return infos;
}

} // namespace buoy
