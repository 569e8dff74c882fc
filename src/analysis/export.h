#pragma once

#include "analysis/recording.h"
#include "buoy/export.h"

#include <cstdint>
#include <vector>

namespace buoy::analysis {

// The pattern of the finished sequence [H, T, T], H is 1 for a mean over heads; rows that were never computed are 0.
Array finished_pattern(const Recording & recording, int32_t layer);

void export_neuir(const Recording & recording, const std::vector<int32_t> & layers, const ExportParams & params);

} // namespace buoy::analysis
