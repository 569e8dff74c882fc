#include "figure/heat-cells.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::figure {

namespace {

std::string note(const HeatMap & map, const HeatCells & cells) {
    const auto part = [](size_t count, size_t shown, const char * what) {
        return "up to " + std::to_string((count + shown - 1) / shown) + " of " + std::to_string(count) + " " + what;
    };
    std::string out = map.downsample == Downsample::mean ? "mean"
                      : map.map == ColorMap::diverging   ? "extreme"
                                                         : "maximum";
    out             = "Each cell shows the " + out + " of ";
    if (cells.columns < map.columns) {
        out += part(map.columns, cells.columns, "columns") + (cells.rows < map.rows ? " and " : "");
    }
    return out + (cells.rows < map.rows ? part(map.rows, cells.rows, "rows") : "") + ".";
}

} // namespace

HeatCells heat_cells(const HeatMap & map, size_t columns_max, size_t rows_max) {
    HeatCells out;
    out.rows    = std::min(map.rows, std::max<size_t>(1, rows_max));
    out.columns = std::min(map.columns, std::max<size_t>(1, columns_max));

    std::vector<size_t> column_of(map.columns);
    for (size_t column = 0; column < map.columns; column++) {
        column_of[column] = column * out.columns / map.columns;
    }
    constexpr float     nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<double> sums(out.rows * out.columns, 0.0);
    std::vector<size_t> counts(out.rows * out.columns, 0);
    out.values.assign(out.rows * out.columns, nan);
    for (size_t row = 0; row < map.rows; row++) {
        const size_t first = row * out.rows / map.rows * out.columns;
        for (size_t column = 0; column < map.columns; column++) {
            const float value = map.values[row * map.columns + column];
            if (!std::isfinite(value)) {
                continue;
            }
            const size_t at   = first + column_of[column];
            float &      cell = out.values[at];
            const bool   more = map.map == ColorMap::diverging ? std::abs(value) > std::abs(cell) : value > cell;
            cell              = counts[at] == 0 || more ? value : cell;
            sums[at] += value;
            counts[at]++;
        }
    }
    for (size_t i = 0; i < out.values.size(); i++) {
        out.has_absent |= counts[i] == 0;
        if (map.downsample == Downsample::mean && counts[i] > 1) {
            out.values[i] = static_cast<float>(sums[i] / static_cast<double>(counts[i]));
        }
    }
    const auto shown = [&](const std::vector<std::pair<size_t, size_t>> & marked) {
        std::vector<std::pair<size_t, size_t>> cells;
        for (const auto & [row, column] : marked) {
            cells.emplace_back(row * out.rows / map.rows, column_of[column]);
        }
        std::sort(cells.begin(), cells.end());
        cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
        return cells;
    };
    out.hatched  = shown(map.hatched);
    out.outlined = shown(map.outlined);
    if (out.columns < map.columns || out.rows < map.rows) {
        out.note = note(map, out);
    }
    return out;
}

} // namespace buoy::figure
