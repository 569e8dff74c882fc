// What we ask RPC servers ourselves, because ggml waits for an answer forever and ends the process if there is none.

#include "engine/rpc/server.h"

#include "base/fail.h"
#include "base/printable.h"
#include "engine/rpc/address.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <ggml-rpc.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace buoy {

namespace {

constexpr int connect_ms = 3000;
constexpr int answer_ms  = 10000; // a server that has another client answers when that one is done

class Socket {
public:
    explicit Socket(int fd) : fd_(fd) {}
    ~Socket() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Socket(Socket && other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket(const Socket &)             = delete;
    Socket & operator=(const Socket &) = delete;
    Socket & operator=(Socket &&)      = delete;

    bool is_open() const { return fd_ >= 0; }

    bool wait_for(short events, int timeout_ms) const {
        pollfd waiting = {fd_, events, 0};
        int    n       = 0;
        do {
            n = poll(&waiting, 1, timeout_ms);
        } while (n < 0 && errno == EINTR);
        errno = n == 0 ? ETIMEDOUT : errno;
        return n > 0;
    }

    bool connect_to(const addrinfo & address) const {
        fcntl(fd_, F_SETFL, O_NONBLOCK);
        if (connect(fd_, address.ai_addr, address.ai_addrlen) == 0) {
            return true;
        }
        if (errno != EINPROGRESS || !wait_for(POLLOUT, connect_ms)) {
            return false;
        }
        int       error = 0;
        socklen_t size  = sizeof(error);
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
        errno = error;
        return error == 0;
    }

    bool send_all(const uint8_t * data, size_t n) const {
        return send(fd_, data, n, MSG_NOSIGNAL) == static_cast<ssize_t>(n); // a few bytes into an empty buffer
    }

    bool receive_all(uint8_t * data, size_t n) const {
        while (n > 0) {
            const ssize_t got = wait_for(POLLIN, answer_ms) ? recv(fd_, data, n, 0) : -1;
            if (got <= 0) {
                errno = got == 0 ? ECONNRESET : errno;
                return false;
            }
            data += got;
            n -= static_cast<size_t>(got);
        }
        return true;
    }

private:
    int fd_;
};

// Closed, with errno saying why, where nobody listens.
Socket connect_to_server(const std::string & endpoint) {
    const Addresses found  = resolve_server(endpoint);
    int             reason = ECONNREFUSED;
    for (const addrinfo * address = found.get(); address != nullptr; address = address->ai_next) {
        Socket server(socket(address->ai_family, address->ai_socktype, address->ai_protocol));
        if (server.is_open() && server.connect_to(*address)) {
            return server;
        }
        reason = errno;
    }
    errno = reason;
    return Socket(-1);
}

} // namespace

void check_server(const std::string & endpoint) {
    constexpr size_t n_caps = 24;
    const Socket     server = connect_to_server(endpoint);
    if (!server.is_open()) {
        fail("RPC server ", in_quotes(endpoint), ": cannot connect: ", std::strerror(errno));
    }
    // the command, the size of what follows in little-endian, no capabilities
    std::array<uint8_t, 1 + 8 + n_caps> hello{14, n_caps};
    std::array<uint8_t, 8 + 4 + n_caps> answer{};
    if (!server.send_all(hello.data(), hello.size()) || !server.receive_all(answer.data(), answer.size())) {
        if (errno == ETIMEDOUT) {
            fail("RPC server ", in_quotes(endpoint), ": no answer within ", answer_ms / 1000,
                 " s; it may have another client, or be no RPC server");
        }
        fail("RPC server ", in_quotes(endpoint), ": no answer (", std::strerror(errno), "); it may be no RPC server");
    }
    const std::array<uint8_t, 8> size{4 + n_caps};
    if (!std::equal(size.begin(), size.end(), answer.begin())) {
        fail("RPC server ", in_quotes(endpoint), ": not the answer of an RPC server");
    }
    const int major = answer[8], minor = answer[9], patch = answer[10];
    if (major != RPC_PROTO_MAJOR_VERSION || minor > RPC_PROTO_MINOR_VERSION) {
        fail("RPC server ", in_quotes(endpoint), ": it speaks version ", major, ".", minor, ".", patch,
             " of the protocol, expected ", RPC_PROTO_MAJOR_VERSION, ".", RPC_PROTO_MINOR_VERSION,
             "; use the llama-rpc-server of the same release");
    }
}

std::vector<std::string> missing_servers() {
    std::vector<std::string> missing;
    for (const std::string & endpoint : known_servers()) {
        if (!connect_to_server(endpoint).is_open() && errno != ETIMEDOUT) {
            missing.push_back(endpoint);
        }
    }
    return missing;
}

} // namespace buoy
