#pragma once

#include "measure.h"

#include <map>

// What the machine can do at most, measured once for each number of threads.
class Peaks {
public:
    const buoy::MachinePeak & with(int32_t n_threads); // 0: one per core

private:
    std::map<int32_t, buoy::MachinePeak> known_;
};

// How much of that a pass uses, in percent; 0 where its products were not counted.
struct PeakShare {
    double arithmetic = 0.0; // the time that its products take at least, of its time
    double memory     = 0.0; // the weights that it reads, of what could be read in its time
};

PeakShare share_of(const buoy::ProductWork & work, double ms, const buoy::MachinePeak & peak);
