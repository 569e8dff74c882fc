#include "base/split-work.h"

#include "buoy/message.h"

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

namespace buoy {

int core_count() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

int thread_count(int32_t asked) {
    constexpr int32_t n_max = 512; // ggml's own limit
    if (asked < 0 || asked > n_max) {
        fail("the number of threads is ", asked, ", expected 0 (automatic) to ", n_max);
    }
    return asked > 0 ? asked : core_count();
}

void split_work(int64_t n, int n_threads, const std::function<void(int, int64_t, int64_t)> & work) {
    const auto                     run = [&](int t) { work(t, n * t / n_threads, n * (t + 1) / n_threads); };
    std::vector<std::future<void>> others; // each is waited for, also where one is not started or fails
    for (int t = 1; t < n_threads; t++) {
        others.push_back(std::async(std::launch::async, run, t));
    }
    run(0);
    for (std::future<void> & other : others) {
        other.get();
    }
}

} // namespace buoy
