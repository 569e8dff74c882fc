#pragma once

#include <cstdint>
#include <functional>

namespace buoy {

// One for each core.
int core_count();

// The number of threads that somebody asked for: 0 is one for each core. Throws Error above ggml's own limit.
int thread_count(int32_t asked);

// Calls work(t, begin, end) for n_threads parts of 0 … n-1 at the same time, part 0 on this thread. Returns when all of them have
// ended; throws what the first of those that failed threw.
void split_work(int64_t n, int n_threads, const std::function<void(int, int64_t, int64_t)> & work);

} // namespace buoy
