#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace buoy {

// A bar with rate and time left, redrawn in place; only for people, so only on a terminal.
class ProgressLine {
public:
    explicit ProgressLine(const char * what) : what_(what) {}

    void update(uint64_t done, uint64_t total);
    void clear();

private:
    using Clock = std::chrono::steady_clock;

    const char *      what_;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point shown_;
    bool              visible_ = false;
};

// "writing [####......]  41 %  312 MB/s  0:07 left"
std::string progress_text(const char * what, uint64_t done, uint64_t total, double seconds);

} // namespace buoy
