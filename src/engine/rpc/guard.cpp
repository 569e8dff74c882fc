#include "engine/rpc/guard.h"

#include "buoy/message.h"
#include "text/llama-handles.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include <ggml.h>

namespace buoy {

namespace {

constexpr auto poll_interval = std::chrono::milliseconds(100);
constexpr auto long_silence  = std::chrono::seconds(30);

// What ggml says of a server when it would end the process.
struct RpcAbort : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// ggml's callback is one for the process and carries no data, so this is, too.
std::atomic<int64_t>  n_servers_lost{0};
thread_local bool     is_guarded     = false;
ggml_abort_callback_t other_callback = nullptr;

[[noreturn]] void sleep_forever() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

// Returning from here ends the process.
void on_abort(const char * message) {
    const int reason = errno;
    if (std::strstr(message, "ggml-rpc") == nullptr) {
        if (other_callback != nullptr) {
            other_callback(message);
        } else {
            std::fprintf(stderr, "%s\n", message);
        }
    } else if (!is_guarded) { // the thread that speaks to the server; who waits for its answer does so forever
        n_servers_lost++;
        sleep_forever();
    } else if (std::strstr(message, "Failed to connect") != nullptr) {
        throw RpcAbort(std::string("cannot connect: ") + std::strerror(reason));
    } else {
        throw RpcAbort("it does not answer like an RPC server");
    }
}

} // namespace

void RpcGuard::Gate::pass() {
    if (closed) {
        mutex.unlock();
        sleep_forever();
    }
    passed = Clock::now();
}

RpcGuard::RpcGuard(const std::vector<std::string> & servers, LogCallback log)
    : log_(std::move(log)), connections_(servers), n_lost_before_(n_servers_lost) {
    static std::once_flag once;
    std::call_once(once, [] { other_callback = ggml_set_abort_callback(on_abort); });
}

void RpcGuard::run(std::function<void()> work) const {
    const std::string why = try_run(std::move(work));
    if (why.empty()) {
        return;
    }
    std::string names;
    for (const std::string & server : connections_.lost()) {
        names += (names.empty() ? " " : ", ") + in_quotes(server);
    }
    fail_runtime(names.empty() ? "an RPC server" : "RPC server", names, ": lost: ", why);
}

std::string RpcGuard::try_run(std::function<void()> work, std::chrono::seconds limit) const {
    if (n_servers_lost != n_lost_before_) {
        return "the connection was already lost";
    }
    std::packaged_task<void()> task([work = std::move(work), log = gated(log_)] {
        sigset_t pipe; // for the threads that ggml starts from here, too: what a server closed is told by an error
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        is_guarded = true;
        const LlamaScope scope(log);
        try {
            work();
        } catch (const RpcAbort & abort) {
            throw RpcAbort(printable(scope.error_or(abort.what())));
        }
    });
    std::future<void>          done = task.get_future();
    std::thread                thread(std::move(task));
    const Clock::time_point    begin = Clock::now();
    std::string                why   = "the connection broke";
    bool                       told  = false;
    while (done.wait_for(poll_interval) != std::future_status::ready) {
        if (connections_.end_silent()) {
            why = "its machine no longer answers";
        }
        const bool                        late = Clock::now() - begin > limit;
        const std::lock_guard<std::mutex> lock(gate_->mutex);
        if (n_servers_lost != n_lost_before_ || late) {
            gate_->closed = true;
            thread.detach();
            if (late) {
                connections_.end_all(); // ggml must not keep its lock forever
                why = concat("no answer within ", limit.count(),
                             " s; it may be serving another client, or not be an RPC server");
            }
            return why;
        }
        if (!told && log_ && Clock::now() - std::max(begin, gate_->passed) > long_silence) {
            told = true;
            log_(LogLevel::warn, concat("no answer from the RPC servers for ", long_silence.count(), " s, waiting"));
        }
    }
    thread.join();
    try {
        done.get();
    } catch (const RpcAbort & abort) {
        return abort.what();
    }
    return "";
}

} // namespace buoy
