#pragma once

#include "analysis/recording.h"
#include "buoy/index-ranges.h"

#include <string>

namespace buoy::analysis {

struct ExportParams {
    std::string path; // of the recording
    std::string format;
    std::string out;
    IndexRanges layers;
    bool        force = false; // replace an existing file
};

// neuir: what the plotting scripts of arXiv 2601.07894 read; npz: received attention as plain arrays; csv: the same as a table;
// bertviz: tokens and patterns of the finished sequence as JSON. docs/metrics.md describes them.
void export_recording(const ExportParams & params);

// The pattern of the finished sequence [H, T, T], H is 1 for a mean over heads; rows that were never computed are 0.
Array finished_pattern(const Recording & recording, int32_t layer);

void export_neuir(const Recording & recording, const std::vector<int32_t> & layers, const ExportParams & params);

} // namespace buoy::analysis
