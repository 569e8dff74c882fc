#pragma once

#include "buoy/log.h"
#include "engine/rpc/connections.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

// ggml's RPC backend ends the process when a server is lost. From now on it tells guarded threads instead.
void guard_rpc();

// A thread for calls that use these RPC servers, because such a call may never come back.
class GuardedThread {
public:
    explicit GuardedThread(const std::vector<std::string> & endpoints, LogCallback log = {});
    ~GuardedThread();
    GuardedThread(const GuardedThread &)             = delete;
    GuardedThread & operator=(const GuardedThread &) = delete;

    // Does the work on the thread and throws what it throws; one line to the log where that takes strangely long. Throws Error
    // where a server is lost meanwhile: then the thread never ends, and what the work refers to must never be freed.
    void run(std::function<void()> work);

    bool is_lost() const;

    // The function for use on the thread: called as long as the thread is not lost.
    template <typename Result, typename... Args>
    std::function<Result(Args...)> gated(std::function<Result(Args...)> function) const {
        if (!function) {
            return function;
        }
        return [gate = gate_, function](Args... args) {
            const std::lock_guard<std::recursive_mutex> lock(gate->mutex);
            gate->pass();
            return function(std::forward<Args>(args)...);
        };
    }

private:
    struct Gate {
        std::recursive_mutex mutex;
        bool                 closed   = false;
        int64_t              n_passed = 0;

        void pass();
    };
    struct State;

    static void       work(const std::shared_ptr<State> & state);
    void              watch(const std::shared_ptr<State> & state);
    void              check_servers();
    void              tell_silence();
    [[noreturn]] void give_up(const std::string & why);

    LogCallback            log_;
    std::shared_ptr<Gate>  gate_;
    std::shared_ptr<State> state_;
    RpcConnections         connections_;
    bool                   connected_ = false; // by the first work, for good
    int64_t                n_lost_before_;
};

} // namespace buoy
