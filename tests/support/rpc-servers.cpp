#include "support/rpc-servers.h"

#include "buoy/device.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace buoy::test {

namespace {

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

bool has_rpc_server() { return std::filesystem::exists(bin_dir() + "/llama-rpc-server"); }

RpcServer::RpcServer() {
    for (int attempt = 0; attempt < 5; attempt++) { // somebody else may take the port
        const int port = free_port();
        endpoint_      = "127.0.0.1:" + std::to_string(port);
        start(port);
        for (int i = 0; i < 2000 && waitpid(pid_, nullptr, WNOHANG) == 0; i++) {
            if (listens(port)) {
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        stop();
    }
    throw std::runtime_error("llama-rpc-server does not start");
}

RpcServer::~RpcServer() { stop(); }

void RpcServer::start(int port) {
    const std::string program = bin_dir() + "/llama-rpc-server", number = std::to_string(port);
    const char * args[] = {program.c_str(), "-H", "127.0.0.1", "-p", number.c_str(), "-t", "1", "-d", "CPU", nullptr};
    setenv("OMP_WAIT_POLICY", "passive", 0); // as for ourselves: waiting threads leave the cores to others
    pid_ = fork();
    if (pid_ == 0) { // only what may follow a fork
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        const int nowhere = open("/dev/null", O_RDWR);
        for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
            dup2(nowhere, fd);
        }
        execv(program.c_str(), const_cast<char **>(args));
        _exit(127);
    }
}

void RpcServer::stop() {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
}

void RpcServer::send(int signal) const { kill(pid_, signal); }

void add_servers_once(size_t n) {
    static std::vector<std::unique_ptr<RpcServer>> servers;
    while (servers.size() < n) {
        servers.push_back(std::make_unique<RpcServer>());
        add_rpc_servers({servers.back()->endpoint()});
    }
}

ContextParams exact_alone() {
    ContextParams params = exact_params();
    params.n_threads     = 1;
    return params;
}

} // namespace buoy::test
