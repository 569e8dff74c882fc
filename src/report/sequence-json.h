#pragma once

#include "analysis/study.h"

#include <cstdint>

namespace buoy::report {

// What a page tells of a run besides its attention: the model, the settings, the sequence and how it was written.
analysis::Json sequence_json(const analysis::Recording & recording, uint64_t size_max);

} // namespace buoy::report
