#pragma once

#include "buoy/engine.h"
#include "support/run-program.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy::test {

// llama-rpc-server on this machine's loopback, with the CPU as its device. Ends with the object.
class RpcServer {
public:
    RpcServer();

    const std::string & endpoint() const { return endpoint_; } // host:port
    void                send(int signal) const { program_->send(signal); }

private:
    std::string              endpoint_;
    std::unique_ptr<Program> program_;
};

// A port of the loopback that nobody listens at.
int free_port();

// False, with a word on why, where this build has no llama-rpc-server.
bool has_rpc_server();

// Servers that live until the process ends, known to it: their devices are RPC0, RPC1, ….
void add_servers_once(size_t n);

} // namespace buoy::test
