#pragma once

#include "buoy/machine.h"
#include "sweep.h"

#include <cstdint>
#include <string>
#include <vector>

// What one case gave. Loading is never part of a sample.
struct Measurement {
    std::string         arch;
    std::string         type; // of most weights in the file
    double              load_ms = 0.0;
    std::vector<double> samples_ms;       // one for each repetition: the generation, or the pass
    int64_t             n_tokens   = 0;   // written in one repetition; 0 for single passes
    int64_t             n_forward  = 0;   // passes of one repetition
    double              forward_ms = 0.0; // mean per pass, inside the engine
    double              attn_ratio = 0.0; // with --attn: the fastest recorded run over the fastest plain one beside it
    uint64_t            attn_bytes = 0;   // with --attn: resident memory that recording took beyond a plain run's
    double              summary_ms = 0.0; // of that, reducing a block's rows to summaries; measured with --profile only
    uint64_t            weight_bytes  = 0;
    uint64_t            kv_bytes      = 0;
    uint64_t            compute_bytes = 0;
    uint64_t            peak_bytes    = 0; // the largest resident size of the process that measured
    int32_t             n_threads     = 0; // of the last pass
    buoy::ProductWork   work;              // of a pass, on average; nothing where it was not counted
};

struct MeasureParams {
    int  repetitions = 3;
    bool warmup      = true;
    bool profile     = false;
};

Measurement measure(const Case & one, const MeasureParams & params);

// The same in a child process, whose peak memory is that of this case alone. Nothing may have started threads before.
Measurement       measure_apart(const Case & one, const MeasureParams & params);
buoy::MachinePeak measure_peak_apart(int32_t n_threads);
