#pragma once

#include "sweep.h"

#include <vector>

// Generates while the attention is recorded as one.attn says, into a temporary file that is removed again.
buoy::Generation generate_recorded(buoy::Context & context, const Case & one, const std::vector<int32_t> & prompt);
