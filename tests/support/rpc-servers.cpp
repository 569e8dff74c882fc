#include "support/rpc-servers.h"

#include "buoy/device.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace buoy::test {

namespace {

constexpr const char * server_name = "llama-rpc-server";

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family      = AF_INET;
    address.sin_port        = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

bool listens(int port) {
    const sockaddr_in address   = loopback(port);
    const int         fd        = socket(AF_INET, SOCK_STREAM, 0);
    const bool        connected = connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0;
    close(fd);
    return connected;
}

} // namespace

int free_port() {
    sockaddr_in address = loopback(0);
    socklen_t   size    = sizeof(address);
    const int   fd      = socket(AF_INET, SOCK_STREAM, 0);
    const bool  bound   = bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) == 0;
    close(fd);
    if (!bound) {
        throw std::runtime_error("no port of the loopback is free");
    }
    return ntohs(address.sin_port);
}

bool has_rpc_server() {
    const bool has = std::filesystem::exists(bin_dir() + "/" + server_name);
    if (!has) {
        MESSAGE("skipped: this build has no ", server_name);
    }
    return has;
}

RpcServer::RpcServer() {
    for (int attempt = 0; attempt < 5; attempt++) { // somebody else may take the port
        const int   port = free_port();
        ProgramSpec spec;
        spec.name        = server_name;
        spec.args        = {"-H", "127.0.0.1", "-p", std::to_string(port), "-t", "1", "-d", "CPU"};
        spec.env         = {{"OMP_WAIT_POLICY", "passive"}};
        spec.seconds_max = 600;
        endpoint_        = "127.0.0.1:" + std::to_string(port);
        program_         = std::make_unique<Program>(spec);
        for (int i = 0; i < 200; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            if (listens(port)) {
                return;
            }
        }
    }
    throw std::runtime_error("llama-rpc-server does not start");
}

void add_servers_once(size_t n) {
    static std::vector<std::unique_ptr<RpcServer>> servers;
    while (servers.size() < n) {
        servers.push_back(std::make_unique<RpcServer>());
        add_rpc_servers({servers.back()->endpoint()});
    }
}

} // namespace buoy::test
