#pragma once

#include "buoy/index-ranges.h"

#include <string>

namespace buoy::analysis {

// docs/metrics.md describes them.
enum class ExportFormat {
    neuir,   // what the plotting scripts of arXiv 2601.07894 read
    npz,     // received attention as plain arrays
    csv,     // the same as a table
    bertviz, // tokens and patterns of the finished sequence as JSON
};

struct ExportParams {
    std::string  path; // of the recording
    ExportFormat format = ExportFormat::csv;
    std::string  out;
    IndexRanges  layers;
    bool         force = false; // replace an existing file
};

void export_recording(const ExportParams & params);

} // namespace buoy::analysis
