#pragma once

#include "engine/rpc/address.h"

#include <map>
#include <string>
#include <vector>

namespace buoy {

// The connections to some RPC servers. ggml keeps them to itself and waits for an answer forever, also from a machine that was
// switched off; but they are among this process's descriptors, and the system can tell.
class RpcConnections {
public:
    explicit RpcConnections(const std::vector<std::string> & endpoints);

    // Finds those that there are now, and has the system ask the other machine for signs of life.
    void look();

    // Servers whose machine no longer acknowledges what is sent. One that is merely busy does.
    std::vector<std::string> silent() const;

    // These, and servers whose connection has ended since the last look.
    std::vector<std::string> lost() const;

    // Ends what is silent, so that who waits there for an answer is told. False where nothing is.
    bool end_silent() const;

private:
    std::vector<std::string> those(bool (*are)(int fd)) const;

    std::map<std::string, Addresses> addresses_;   // by endpoint
    std::map<std::string, int>       descriptors_; // by endpoint
};

} // namespace buoy
