#include "engine/rpc/connections.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "model/devices.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace buoy {

namespace {

constexpr int unheard_s   = 7; // without a word from the other machine, to be lost
constexpr int ask_after_s = 2; // of silence
constexpr int ask_every_s = 2;
constexpr int n_asked     = 3; // then the system ends the connection itself

std::vector<sockaddr_in> resolve(const std::string & server) {
    const size_t colon = server.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == server.size()) {
        fail("RPC server ", in_quotes(server), ": expected host:port");
    }
    const std::string port = server.substr(colon + 1);
    if (parse_number<uint16_t>(port) == std::nullopt) {
        fail("RPC server ", in_quotes(server), ": expected a port up to 65535, found ", in_quotes(port));
    }
    addrinfo   hints{};
    addrinfo * found  = nullptr;
    hints.ai_family   = AF_INET; // as ggml connects
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = getaddrinfo(server.substr(0, colon).c_str(), port.c_str(), &hints, &found); error != 0) {
        fail("RPC server ", in_quotes(server), ": ", gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
    std::vector<sockaddr_in>                                 addresses;
    for (; found != nullptr; found = found->ai_next) {
        addresses.push_back(*reinterpret_cast<const sockaddr_in *>(found->ai_addr));
    }
    return addresses;
}

void set_option(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof(value)); }

// Once for each connection: setting it anew asks at once, and soon too often.
void ask_for_life(int fd) {
    int       asking = 0;
    socklen_t size   = sizeof(asking);
    if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &asking, &size) != 0 || asking != 0) {
        return;
    }
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, ask_every_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, n_asked);
#ifdef __APPLE__
    set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, ask_after_s);
    set_option(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, unheard_s);
#else
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, ask_after_s);
#endif
}

// The system asks only while nothing is under way, and repeats what is, or asks for room, for a quarter of an hour. TCP_USER_TIMEOUT
// would shorten that, but also ends connections to a machine that answers and has no room just now.
bool is_silent(int fd) {
#ifdef __linux__
    tcp_info  info{};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
        return false;
    }
    const bool repeats = info.tcpi_unacked > 0 && info.tcpi_retransmits > 0;
    const bool asks    = info.tcpi_probes > 1; // one may be under way
    return (repeats || asks) && info.tcpi_last_ack_recv > unheard_s * 1000U;
#else
    (void)fd; // the system ends the connection (TCP_RXT_CONNDROPTIME)
    return false;
#endif
}

bool is_open(int fd) {
    char          next = 0;
    const ssize_t n    = recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

} // namespace

// ggml describes a server's devices by its address.
std::string server_of(ggml_backend_dev_t device) { return is_rpc(device) ? ggml_backend_dev_description(device) : ""; }

RpcConnections::RpcConnections(const std::vector<std::string> & servers) {
    for (const std::string & server : servers) {
        addresses_.emplace(server, resolve(server));
    }
}

bool RpcConnections::end_silent() const {
    bool any = false;
    for (const auto & [server, fd] : list()) {
        ask_for_life(fd);
        any = (is_silent(fd) && shutdown(fd, SHUT_RDWR) == 0) || any;
    }
    return any;
}

void RpcConnections::end_all() const {
    for (const auto & [server, fd] : list()) {
        shutdown(fd, SHUT_RDWR);
    }
}

std::vector<std::string> RpcConnections::lost() const {
    std::set<std::string> open;
    for (const auto & [server, fd] : list()) {
        if (is_open(fd)) {
            open.insert(server);
        }
    }
    std::vector<std::string> servers;
    for (const auto & [server, addresses] : addresses_) {
        if (!open.contains(server)) {
            servers.push_back(server);
        }
    }
    return servers;
}

std::vector<std::pair<std::string, int>> RpcConnections::list() const {
    std::vector<std::pair<std::string, int>> found;
    std::error_code                          error;
    for (auto entry = std::filesystem::directory_iterator("/dev/fd", error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const int   fd = parse_number<int>(entry->path().filename().string()).value_or(-1);
        sockaddr_in peer{};
        socklen_t   size = sizeof(peer);
        if (getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) != 0 || peer.sin_family != AF_INET) {
            continue;
        }
        for (const auto & [server, addresses] : addresses_) {
            if (std::any_of(addresses.begin(), addresses.end(), [&](const sockaddr_in & address) {
                    return address.sin_port == peer.sin_port && address.sin_addr.s_addr == peer.sin_addr.s_addr;
                })) {
                found.emplace_back(server, fd);
            }
        }
    }
    return found;
}

} // namespace buoy
