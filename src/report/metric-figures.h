#pragma once

#include <string>
#include <vector>

namespace buoy::report {

// A metric's figure for the page, or why there is none.
struct MetricFigure {
    std::string name;   // absorption
    std::string svg;    // empty: none
    std::string reason; // of that
};

std::vector<MetricFigure> metric_figures(const std::vector<std::string> & paths,
                                         const std::vector<std::string> & labels);

} // namespace buoy::report
