#pragma once

namespace buoy {

// The largest bias of an edit that does not drop: however many add up, scores stay finite.
constexpr float attention_bias_max = 1e4f;

} // namespace buoy
