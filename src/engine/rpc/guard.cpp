#include "engine/rpc/guard.h"

#include "base/fail.h"
#include "base/printable.h"
#include "engine/rpc/server.h"
#include "text/llama-handles.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include <ggml.h>

namespace buoy {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(100);
constexpr auto long_silence  = std::chrono::seconds(30);

// ggml's callback is one for the process and carries no data, so this is, too.
std::atomic<int64_t>  n_servers_lost{0};
thread_local bool     is_guarded     = false;
ggml_abort_callback_t other_callback = nullptr;

[[noreturn]] void sleep_forever() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

// "…/ggml-rpc.cpp:547: Failed to connect to …"
std::string without_place(const std::string & message) {
    const size_t at    = message.find(".cpp:");
    const size_t colon = at == std::string::npos ? at : message.find(": ", at);
    std::string  text  = colon == std::string::npos ? message : message.substr(colon + 2);
    while (!text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    return text;
}

// One line that names the servers, if it can be told which they were.
[[noreturn]] void fail_lost(const std::string & why, std::vector<std::string> endpoints = {}) {
    if (endpoints.empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300)); // one that ends may still listen for a moment
        endpoints = missing_servers();
    }
    std::string names;
    for (const std::string & endpoint : endpoints) {
        names += (names.empty() ? " " : ", ") + in_quotes(endpoint);
    }
    fail_runtime(names.empty() ? "an RPC server" : "RPC server", names, ": lost: ", why);
}

// Returning from here ends the process.
void on_abort(const char * message) {
    if (std::strstr(message, "ggml-rpc") == nullptr) {
        if (other_callback != nullptr) {
            other_callback(message);
        } else {
            std::fprintf(stderr, "%s\n", message);
        }
    } else if (is_guarded) {
        fail_lost(printable(without_place(message)));
    } else { // the thread that speaks to the server; who waits for its answer does so forever
        n_servers_lost++;
        sleep_forever();
    }
}

} // namespace

struct GuardedThread::State {
    std::mutex              mutex;
    std::condition_variable changed;
    std::function<void()>   work; // empty: none to do
    std::exception_ptr      error;
    bool                    quit = false;
    std::thread             thread;
};

void guard_rpc() {
    static std::once_flag once;
    std::call_once(once, [] { other_callback = ggml_set_abort_callback(on_abort); });
}

void GuardedThread::Gate::pass() {
    if (closed) {
        mutex.unlock();
        sleep_forever();
    }
    n_passed++;
}

GuardedThread::GuardedThread(const std::vector<std::string> & endpoints, LogCallback log)
    : log_(std::move(log)), gate_(std::make_shared<Gate>()), state_(std::make_shared<State>()), connections_(endpoints),
      n_lost_before_(n_servers_lost) {
    guard_rpc();
    state_->thread = std::thread([state = state_, log = gated(log_)] {
        sigset_t pipe; // for the threads that ggml starts from here, too: what a server closed is told by an error
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        is_guarded = true;
        const LlamaScope scope(log);
        work(state);
    });
}

GuardedThread::~GuardedThread() {
    if (is_lost()) {
        state_->thread.detach();
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        state_->quit = true;
    }
    state_->changed.notify_all();
    state_->thread.join();
}

void GuardedThread::work(const std::shared_ptr<State> & state) {
    std::unique_lock<std::mutex> lock(state->mutex);
    for (;;) {
        state->changed.wait(lock, [&] { return state->work || state->quit; });
        if (state->quit) {
            return;
        }
        const std::function<void()> todo = state->work;
        lock.unlock();
        std::exception_ptr error;
        try {
            todo();
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        state->error = error;
        state->work  = nullptr;
        state->changed.notify_all();
    }
}

bool GuardedThread::is_lost() const {
    const std::lock_guard<std::recursive_mutex> lock(gate_->mutex);
    return gate_->closed;
}

void GuardedThread::run(std::function<void()> work) {
    if (is_lost() || n_servers_lost != n_lost_before_) {
        give_up("the connection was lost before");
    }
    {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        state_->work = std::move(work);
    }
    state_->changed.notify_all();
    watch(state_);
    if (!connected_) {
        connections_.look();
        connected_ = true;
    }
}

void GuardedThread::watch(const std::shared_ptr<State> & state) {
    Clock::time_point            last_sign = Clock::now();
    int64_t                      n_passed  = 0;
    bool                         told      = false;
    std::unique_lock<std::mutex> lock(state->mutex);
    while (!state->changed.wait_for(lock, poll_interval, [&] { return !state->work; })) {
        lock.unlock(); // the work may end meanwhile
        check_servers();
        {
            const std::unique_lock<std::recursive_mutex> at_gate(gate_->mutex, std::try_to_lock);
            if (!at_gate || gate_->n_passed != n_passed) {
                n_passed  = at_gate ? gate_->n_passed : n_passed;
                last_sign = Clock::now();
            }
        }
        if (!told && Clock::now() - last_sign > long_silence) {
            told = true;
            tell_silence();
        }
        lock.lock();
    }
    if (state->error) {
        std::rethrow_exception(std::exchange(state->error, nullptr));
    }
}

void GuardedThread::check_servers() {
    if (n_servers_lost != n_lost_before_) {
        give_up("the connection broke");
    }
    if (!connected_) {
        connections_.look();
    }
    if (!connections_.silent().empty()) {
        give_up("its machine no longer answers");
    }
}

void GuardedThread::tell_silence() {
    if (log_) {
        log_(LogLevel::warn, concat("no answer from the RPC servers for ", long_silence.count(), " s, waiting"));
    }
    if (!missing_servers().empty()) {
        give_up("nothing listens there any more");
    }
}

void GuardedThread::give_up(const std::string & why) {
    {
        const std::lock_guard<std::recursive_mutex> lock(gate_->mutex);
        gate_->closed = true;
    }
    const std::vector<std::string> lost = connections_.lost();
    if (connections_.end_silent()) {
        // ggml's thread sees the end now and not in a quarter of an hour, when other servers may be in use
        for (int i = 0; i < 10 && n_servers_lost == n_lost_before_; i++) {
            std::this_thread::sleep_for(poll_interval);
        }
    }
    fail_lost(why, lost);
}

} // namespace buoy
