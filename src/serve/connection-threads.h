#pragma once

#include <cpp-httplib/httplib.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace buoy::serve {

// A thread for each connection, up to a limit: one that waits for a long answer keeps nobody else waiting.
class ConnectionThreads : public httplib::TaskQueue {
public:
    explicit ConnectionThreads(size_t n_max) : n_max_(n_max) {}
    ~ConnectionThreads() override { shutdown(); }

    // False where there are too many: the connection is closed.
    bool enqueue(std::function<void()> serve) override {
        {
            const std::lock_guard lock(mutex_);
            if (n_ >= n_max_) {
                return false;
            }
            n_++;
        }
        try {
            std::thread([this, serve = std::move(serve)] {
                serve();
                leave();
            }).detach();                      // shutdown() waits for it
        } catch (const std::system_error &) { // the system has no more threads
            leave();
            return false;
        }
        return true;
    }

    void shutdown() override {
        std::unique_lock lock(mutex_);
        none_.wait(lock, [this] { return n_ == 0; });
    }

private:
    void leave() {
        const std::lock_guard lock(mutex_);
        n_--;
        none_.notify_all(); // with the lock: who waits may destroy this
    }

    const size_t            n_max_;
    std::mutex              mutex_;
    std::condition_variable none_;
    size_t                  n_ = 0;
};

} // namespace buoy::serve
