#include "engine/rpc/connections.h"

#include "base/parse-number.h"
#include "buoy/error.h"

#include <cerrno>
#include <filesystem>
#include <optional>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace buoy {

namespace {

constexpr int unheard_s   = 7; // without a word from the other machine, to be lost
constexpr int ask_after_s = 2; // of silence
constexpr int ask_every_s = 2;
constexpr int n_asked     = 3; // then the system ends the connection itself

std::optional<sockaddr_in> peer_of(int fd) {
    sockaddr_in peer{};
    socklen_t   size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) != 0 || peer.sin_family != AF_INET) {
        return std::nullopt;
    }
    return peer;
}

bool is_among(const sockaddr_in & peer, const Addresses & addresses) {
    for (const addrinfo * one = addresses.get(); one != nullptr; one = one->ai_next) {
        const auto & address = *reinterpret_cast<const sockaddr_in *>(one->ai_addr);
        if (address.sin_port == peer.sin_port && address.sin_addr.s_addr == peer.sin_addr.s_addr) {
            return true;
        }
    }
    return false;
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

bool has_ended(int fd) {
    char          next = 0;
    const ssize_t n    = recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

} // namespace

RpcConnections::RpcConnections(const std::vector<std::string> & endpoints) {
    for (const std::string & endpoint : endpoints) {
        try {
            addresses_.emplace(endpoint, resolve_server(endpoint));
        } catch (const Error &) { // who connects will tell
        }
    }
}

void RpcConnections::look() {
    descriptors_.clear();
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator("/dev/fd", error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const int  fd   = parse_number<int>(entry->path().filename().string()).value_or(-1);
        const auto peer = peer_of(fd);
        for (const auto & [endpoint, addresses] : addresses_) {
            if (peer && is_among(*peer, addresses)) {
                ask_for_life(fd);
                descriptors_[endpoint] = fd;
            }
        }
    }
}

std::vector<std::string> RpcConnections::silent() const {
    return those([](int fd) { return is_silent(fd); });
}

std::vector<std::string> RpcConnections::lost() const {
    return those([](int fd) { return is_silent(fd) || has_ended(fd); });
}

bool RpcConnections::end_silent() const {
    return !those([](int fd) { return is_silent(fd) && shutdown(fd, SHUT_RDWR) == 0; }).empty();
}

std::vector<std::string> RpcConnections::those(bool (*are)(int fd)) const {
    std::vector<std::string> endpoints;
    for (const auto & [endpoint, fd] : descriptors_) {
        if (are(fd)) {
            endpoints.push_back(endpoint);
        }
    }
    return endpoints;
}

} // namespace buoy
