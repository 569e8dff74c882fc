#pragma once

#include "buoy/context.h"

#include <string>

#include <sys/types.h>

namespace buoy::test {

// llama-rpc-server on this machine's loopback, with the CPU as its device. Ends with the object, and on Linux with the
// process, however that ends.
class RpcServer {
public:
    RpcServer();
    ~RpcServer();
    RpcServer(const RpcServer &)             = delete;
    RpcServer & operator=(const RpcServer &) = delete;

    const std::string & endpoint() const { return endpoint_; } // host:port
    void                send(int signal) const;

private:
    void start(int port);
    void stop();

    std::string endpoint_;
    pid_t       pid_ = -1;
};

// A port of the loopback that nobody listens at.
int free_port();

// Whether this build has a llama-rpc-server.
bool has_rpc_server();

// Servers that live until the process ends, known to it: their devices are RPC0, RPC1, ….
void add_servers_once(size_t n);

// exact_params() with one thread: the models of these tests are too small for two to agree.
ContextParams exact_alone();

} // namespace buoy::test
