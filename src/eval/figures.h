#pragma once

#include "buoy/eval.h"
#include "eval/attention-summary.h"
#include "eval/summary.h"

#include <string>
#include <vector>

namespace buoy {

// What the run has data for: accuracy over gold position, over noise, by condition; attention on the gold passage and on anchors by
// layer, retrieval heads and the flow between regions, with the most passages that were asked for.
std::vector<QaFigure> qa_figures(const QaSummary & summary, const std::vector<QaAttention> & attention);

} // namespace buoy
