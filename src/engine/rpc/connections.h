#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ggml-backend.h>
#include <netinet/in.h>

namespace buoy {

// The "host:port" that a device is behind; empty where it is no RPC server's.
std::string server_of(ggml_backend_dev_t device);

// This process's connections to some RPC servers. ggml keeps them to itself and waits for an answer forever, also from a machine that was
// switched off; but they are among our descriptors, and the system can tell.
class RpcConnections {
public:
    // Throws Error where one is not the "host:port" of a host that is known.
    explicit RpcConnections(const std::vector<std::string> & servers);

    // Ends those to machines that no longer acknowledge what is sent, so that who waits there for an answer is told: true where there
    // was one. A machine whose server is merely busy does.
    bool end_silent() const;
    void end_all() const;

    // Servers without a connection that lives.
    std::vector<std::string> lost() const;

private:
    std::vector<std::pair<std::string, int>> list() const; // server and descriptor

    std::map<std::string, std::vector<sockaddr_in>> addresses_; // by server
};

} // namespace buoy
