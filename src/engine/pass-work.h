#pragma once

#include "buoy/context.h"

#include <ggml.h>

#include <cstdint>

namespace buoy {

// What a graph's products and attention cost, in multiply-adds. Reading a weight costs as much as several of them, which decides
// where a pass has few rows. What else the graph computes is little beside them.
int64_t pass_cost(ggml_cgraph * graph);
int64_t pass_cost(int64_t n_weights, int64_t n_rows);

// The products of the graph with weights, that is without those of attention.
ProductWork product_work(ggml_cgraph * graph);

// Threads for a pass: as many as asked, or with 0 as many as it is worth, one per core at most. Threads wait for each other after every
// operation. For a pass of a millisecond that costs about what it saves, and far more where other programs keep the cores busy.
int thread_count_for(int64_t cost, int32_t asked);

} // namespace buoy
