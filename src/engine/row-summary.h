#pragma once

#include "buoy/context.h"

#include <cstddef>

namespace buoy {

// The summary of one row of V logits, on the host.
RowSummary summarize_row(const float * logits, size_t n_vocab);

} // namespace buoy
