#include "buoy/device.h"
#include "buoy/message.h"
#include "engine/rpc/guard.h"
#include "model/devices.h"

#include <ggml-backend.h>
#include <ggml-rpc.h>

#include <memory>

namespace buoy {

namespace {

constexpr std::chrono::seconds answer_limit{10}; // a server that has another client answers when that one is done

// ggml's "RPC server version mismatch: 3.0.0", with what to do about it.
std::string with_advice(const std::string & why) {
    const size_t version = why.find("version mismatch: ") == std::string::npos ? why.size() : why.rfind(' ') + 1;
    if (version == why.size()) {
        return why;
    }
    return concat("it speaks version ", why.substr(version), " of the protocol, expected ", RPC_PROTO_MAJOR_VERSION,
                  ".", RPC_PROTO_MINOR_VERSION, "; use the llama-rpc-server of the same release");
}

} // namespace

void add_rpc_servers(const std::vector<std::string> & endpoints) {
    using AddServer = ggml_backend_reg_t (*)(const char * endpoint);
    if (endpoints.empty()) {
        return;
    }
    load_backends();
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    void * found = rpc == nullptr ? nullptr : ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server");
    if (found == nullptr) {
        fail("RPC servers can't be used: this build has no RPC backend (configure with -DBUOY_RPC=ON)");
    }
    auto * add_server = reinterpret_cast<AddServer>(found);
    for (const std::string & endpoint : endpoints) {
        const auto        server = std::make_shared<ggml_backend_reg_t>(nullptr);
        const std::string why =
            RpcGuard({endpoint}).try_run([=] { *server = add_server(endpoint.c_str()); }, answer_limit);
        if (!why.empty()) {
            fail("RPC server ", in_quotes(endpoint), ": ", with_advice(why));
        }
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
            RpcGuard({server_of(device)}).run(ask_memory);
        } else {
            ask_memory();
        }
        infos.push_back(std::move(info));
    }
    return infos;
}

} // namespace buoy
