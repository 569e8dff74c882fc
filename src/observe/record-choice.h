#pragma once

#include "buoy/record.h"

namespace buoy {

// RecordParams against a model and a run: every index exists, lists are ascending.
struct RecordChoice {
    std::vector<Tap>     taps;
    std::vector<int32_t> layers; // all of them written out
    std::vector<int32_t> heads;  // empty: all
    std::vector<int32_t> steps;  // empty: all
    std::vector<int32_t> rows;   // empty: all
    TapReduce            reduce    = TapReduce::heads;
    RecordType           type      = RecordType::f16;
    int32_t              n_regions = 0;

    bool has_step(int32_t step) const;
};

RecordChoice choose_record(const RecordParams & params, const ModelInfo & info, int32_t n_steps, int32_t n_positions);

} // namespace buoy
