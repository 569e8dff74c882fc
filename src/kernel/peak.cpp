#include "base/split-work.h"
#include "buoy/machine.h"
#include "kernel/kernels.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <unistd.h>

namespace buoy {

namespace {

#if defined(__x86_64__) && defined(__GNUC__)

constexpr int bf16_sums = 12;

__attribute__((target("avx512f,avx512bf16"))) float run_bf16(int64_t n) {
    __m512 sums[bf16_sums];
    for (__m512 & sum : sums) {
        sum = _mm512_setzero_ps();
    }
    const auto one = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (__m512 & sum : sums) {
            sum = _mm512_dpbf16_ps(sum, one, one);
        }
    }
    float all = 0.0f;
    for (const __m512 & sum : sums) {
        alignas(64) float out[16];
        _mm512_store_ps(out, sum);
        all += out[0];
    }
    return all;
}

PeakLoop bf16_loop() {
    return __builtin_cpu_supports("avx512bf16") ? PeakLoop{bf16_sums * 32, run_bf16} : PeakLoop{0, nullptr};
}

#else

PeakLoop bf16_loop() { return {0, nullptr}; }

#endif

double seconds_of(const std::function<void()> & work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of all tries in a quarter of a second: other programs are in the way of some.
double shortest_of(const std::function<void()> & work) {
    double best = seconds_of(work);
    for (double spent = best; spent < 0.25;) {
        const double seconds = seconds_of(work);
        best                 = std::min(best, seconds);
        spent += seconds;
    }
    return best;
}

// 10^9 multiply-adds a second, of all threads.
double rate_of(const PeakLoop & loop, int n_threads) {
    if (loop.run == nullptr) {
        return 0.0;
    }
    volatile float keep     = 0.0f;
    int64_t        n_rounds = 1024;
    while (seconds_of([&] { keep = loop.run(n_rounds); }) < 0.01) {
        n_rounds *= 2;
    }
    const double seconds = shortest_of([&] {
        split_work(n_threads, n_threads, [&](int, int64_t, int64_t) {
            volatile float mine = loop.run(n_rounds);
            static_cast<void>(mine);
        });
    });
    return static_cast<double>(loop.multiply_adds * n_rounds) * n_threads / seconds * 1e-9;
}

int64_t last_cache_size() {
#ifdef _SC_LEVEL3_CACHE_SIZE
    return std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
#else
    return 0;
#endif
}

// 10^9 bytes a second, of a buffer that no cache holds.
double read_rate(int n_threads) {
    const int64_t               n_bytes = std::clamp<int64_t>(4 * last_cache_size(), 256 << 20, int64_t{1} << 30);
    const std::vector<uint64_t> words(static_cast<size_t>(n_bytes) / sizeof(uint64_t), 1);
    const double                seconds = shortest_of([&] {
        split_work(static_cast<int64_t>(words.size()), n_threads, [&](int, int64_t first, int64_t last) {
            uint64_t sum = 0;
            for (int64_t i = first; i < last; i++) {
                sum += words[static_cast<size_t>(i)];
            }
            volatile uint64_t mine = sum;
            static_cast<void>(mine);
        });
    });
    return static_cast<double>(n_bytes) / seconds * 1e-9;
}

} // namespace

MachinePeak measure_peak(int32_t n_threads) {
    const int           n     = thread_count(n_threads);
    const KernelTable * table = kernel_table();
    MachinePeak         peak;
    peak.n_threads = n;
    if (table != nullptr) {
        peak.instructions = kernel_set_name(table->set);
        peak.f32          = rate_of(table->peak_floats, n);
        peak.int8         = rate_of(table->peak_bytes, n);
        peak.bf16         = rate_of(bf16_loop(), n);
    }
    peak.memory = read_rate(n);
    return peak;
}

} // namespace buoy
