#pragma once

#include "eval/run.h"

#include <chrono>

// How far a run is, how fast, and how long it will take: a line that is written over on a terminal, else one now and then.
class ProgressLine {
public:
    ProgressLine();
    ~ProgressLine();
    ProgressLine(const ProgressLine &)             = delete;
    ProgressLine & operator=(const ProgressLine &) = delete;

    void update(const buoy::QaProgress & progress);

private:
    using Clock = std::chrono::steady_clock;

    bool              terminal_;
    bool              drawn_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point last_  = begin_;
};
