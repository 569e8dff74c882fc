#pragma once

#include "buoy/context.h"

namespace buoy {

// The largest bias of an edit that does not drop: however many add up, scores stay finite.
constexpr float attention_bias_max = 1e4f;

// An error where this engine edits nothing, known before a pass that has edits.
void check_can_edit(const Context & context);

} // namespace buoy
