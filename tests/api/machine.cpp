// What the processor can do.
#include "buoy/machine.h"

#include <cstdio>
#include <string>

void example_machine(const std::string &) {
    const buoy::MachinePeak peak = buoy::measure_peak(1);
    std::printf("%.0f billion dot products of bytes a second, %.0f GB/s from memory\n", peak.int8, peak.memory);
}
