#include "buoy/device.h"
#include "buoy/error.h"
#include "engine/llama-handles.h"
#include "io/printable.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <ggml-backend.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace buoy {

namespace {

// ggml ends the process where nobody answers, so we knock first.
void check_answers(const std::string & endpoint) {
    const size_t colon = endpoint.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size()) {
        fail("RPC server ", in_quotes(endpoint), ": expected host:port");
    }
    addrinfo   hints{};
    addrinfo * found  = nullptr;
    hints.ai_family   = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    const int error =
        getaddrinfo(endpoint.substr(0, colon).c_str(), endpoint.substr(colon + 1).c_str(), &hints, &found);
    if (error != 0) {
        fail("RPC server ", in_quotes(endpoint), ": ", gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    int                                                      reason = 0;
    for (const addrinfo * address = found; address != nullptr; address = address->ai_next) {
        const int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
        if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
            close(fd);
            return;
        }
        reason = errno;
        if (fd >= 0) {
            close(fd);
        }
    }
    fail("RPC server ", in_quotes(endpoint), ": cannot connect: ", std::strerror(reason));
}

} // namespace

void add_rpc_servers(const std::vector<std::string> & endpoints) {
    using AddServer = ggml_backend_reg_t (*)(const char * endpoint);
    const LlamaScope quiet;
    list_devices(); // loads the backends
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    auto *             add_server =
        rpc == nullptr
                        ? nullptr
                        : reinterpret_cast<AddServer>(ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server"));
    if (add_server == nullptr) {
        fail("RPC servers can't be used: this build has no RPC backend (BUOY_RPC=ON makes one)");
    }
    for (const std::string & endpoint : endpoints) {
        check_answers(endpoint);
        ggml_backend_reg_t server = add_server(endpoint.c_str());
        if (server == nullptr) {
            fail("RPC server ", in_quotes(endpoint), ": it has no devices");
        }
        ggml_backend_register(server);
    }
}

} // namespace buoy
