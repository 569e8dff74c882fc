#include "engine/rpc/address.h"

#include "base/fail.h"
#include "base/printable.h"
#include "model/devices.h"

#include <algorithm>

#include <sys/socket.h>

namespace buoy {

Addresses resolve_server(const std::string & endpoint) {
    const size_t colon = endpoint.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size()) {
        fail("RPC server ", in_quotes(endpoint), ": expected host:port");
    }
    const std::string port = endpoint.substr(colon + 1);
    if (port.find_first_not_of("0123456789") != std::string::npos || port.size() > 5 || std::stoi(port) > 65535) {
        fail("RPC server ", in_quotes(endpoint), ": expected a port up to 65535, found ", in_quotes(port));
    }
    addrinfo   hints{};
    addrinfo * found  = nullptr;
    hints.ai_family   = AF_INET; // as ggml connects
    hints.ai_socktype = SOCK_STREAM;
    const int error   = getaddrinfo(endpoint.substr(0, colon).c_str(), port.c_str(), &hints, &found);
    if (error != 0) {
        fail("RPC server ", in_quotes(endpoint), ": ", gai_strerror(error));
    }
    return Addresses(found, &freeaddrinfo);
}

// ggml describes a server's devices by its address.
std::string server_of(ggml_backend_dev_t device) { return is_rpc(device) ? ggml_backend_dev_description(device) : ""; }

std::vector<std::string> known_servers() {
    std::vector<std::string> endpoints;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        const std::string endpoint = server_of(ggml_backend_dev_get(i));
        if (!endpoint.empty() && std::find(endpoints.begin(), endpoints.end(), endpoint) == endpoints.end()) {
            endpoints.push_back(endpoint);
        }
    }
    return endpoints;
}

} // namespace buoy
