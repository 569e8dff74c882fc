// Indices as people type them.
#include "buoy/index-ranges.h"

#include <cstdio>
#include <string>

void example_index_ranges(const std::string &) {
    const buoy::IndexRanges ranges = buoy::parse_index_ranges("layers", "0,4-6,10-");
    for (const int32_t layer : buoy::resolve_ranges("layers", ranges, "layer", 12)) {
        std::printf("%d ", layer); // 0 4 5 6 10 11
    }
    std::printf("\n");
}
