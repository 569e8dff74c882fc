#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ggml-backend.h>
#include <netdb.h>

namespace buoy {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Where "host:port" is. Throws Error where it is neither that nor known.
Addresses resolve_server(const std::string & endpoint);

// The "host:port" that a device is behind; empty where it is no RPC server's.
std::string server_of(ggml_backend_dev_t device);

// The RPC servers whose devices this process knows, "host:port" each.
std::vector<std::string> known_servers();

} // namespace buoy
