#pragma once

#include "eval/attention-summary.h"
#include "eval/summary.h"
#include "figure/figure.h"

#include <string>
#include <vector>

namespace buoy {

struct QaFigure {
    std::string    name; // of a file
    figure::Figure figure;
};

// What the run has data for: accuracy over gold position, over noise, by condition; attention on the gold passage and on anchors by
// layer, retrieval heads and the flow between regions, with the most passages that were asked for.
std::vector<QaFigure> qa_figures(const QaSummary & summary, const std::vector<QaAttention> & attention);

void make_figure_directory(const std::string & directory);

// DIR/NAME.svg and DIR/NAME.png of each; the directory is made where there is none.
void write_qa_figures(const std::string & directory, const std::vector<QaFigure> & figures);

} // namespace buoy
