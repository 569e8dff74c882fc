#include "figure/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace buoy::figure {

std::string sparkline(const std::vector<double> & values, size_t width_max, SparkStyle style) {
    static constexpr std::array<std::string_view, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr std::string_view                ascii  = "_.-=+*%#";

    const size_t        width = std::min(values.size(), std::max<size_t>(width_max, 1));
    std::vector<double> shown(width, -1);
    double              top = 0;
    for (size_t i = 0; i < values.size(); i++) {
        if (std::isfinite(values[i])) {
            double & cell = shown[i * width / values.size()];
            cell          = std::max({cell, values[i], 0.0});
            top           = std::max(top, values[i]);
        }
    }
    std::string out;
    for (const double value : shown) {
        const auto level = static_cast<size_t>(value > 0 ? std::min(7.0, std::floor(value / top * 8)) : 0);
        if (value < 0) {
            out += ' ';
        } else if (style == SparkStyle::blocks) {
            out += blocks[level];
        } else {
            out += ascii[level];
        }
    }
    return out;
}

} // namespace buoy::figure
