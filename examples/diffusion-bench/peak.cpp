#include "peak.h"

const buoy::MachinePeak & Peaks::with(int32_t n_threads) {
    auto known = known_.find(n_threads);
    if (known == known_.end()) {
        const buoy::MachinePeak peak = measure_peak_apart(n_threads);
        known_.emplace(peak.n_threads, peak); // which 0 stands for
        known = known_.emplace(n_threads, peak).first;
    }
    return known->second;
}

PeakShare share_of(const buoy::ProductWork & work, double ms, const buoy::MachinePeak & peak) {
    PeakShare share;
    if (peak.int8 > 0.0 && ms > 0.0) {
        const auto   at_least = [](int64_t n, double rate) { return static_cast<double>(n) / rate; }; // nanoseconds
        const double ns       = at_least(work.quantised, peak.int8) + at_least(work.f16 + work.f32, peak.f32) +
                          at_least(work.bf16, peak.bf16 > 0.0 ? peak.bf16 : peak.f32);
        share.arithmetic = ns / (ms * 1e6) * 100.0;
    }
    if (peak.memory > 0.0 && ms > 0.0) {
        share.memory = static_cast<double>(work.weight_bytes) / peak.memory / (ms * 1e6) * 100.0;
    }
    return share;
}
