#pragma once

#include "buoy/log.h"
#include "engine/rpc/connections.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace buoy {

// For calls that reach RPC servers. When one is lost, ggml never returns from such a call, or ends the process; so each has a thread of its
// own, which can be given up.
class RpcGuard {
public:
    explicit RpcGuard(const std::vector<std::string> & servers, LogCallback log = {});

    // Does the work and throws what it throws; one line to the log where that takes strangely long. Throws Error where a server is
    // lost, and ever after: the work then never ends, and what it refers to must never be freed.
    void run(std::function<void()> work) const;

    // The same; returns why a server is lost. Empty: it is not. No answer for so long is a loss, too.
    std::string try_run(std::function<void()> work, std::chrono::seconds limit = std::chrono::hours(24 * 365)) const;

    // The function for use by the work: called as long as no server is lost.
    template <typename Result, typename... Args>
    std::function<Result(Args...)> gated(std::function<Result(Args...)> function) const {
        if (!function) {
            return function;
        }
        return [gate = gate_, function](Args... args) {
            const std::lock_guard<std::mutex> lock(gate->mutex);
            gate->pass();
            return function(std::forward<Args>(args)...);
        };
    }

private:
    using Clock = std::chrono::steady_clock;

    struct Gate {
        std::mutex        mutex;
        bool              closed = false;
        Clock::time_point passed = Clock::now();

        void pass();
    };

    LogCallback           log_;
    std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
    RpcConnections        connections_;
    int64_t               n_lost_before_;
};

} // namespace buoy
