#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Charts of numbers, as SVG and PNG. Wherever a value is not finite there is no value: a gap, a missing bar, a grey cell.
// Texts may be any bytes: they are made printable, and cut with … where they are too long.

namespace buoy::figure {

struct Axis {
    std::string           label;
    bool                  percent = false; // values are fractions: 0.5 is printed as 50%
    std::optional<double> min, max;        // default: what the data needs
};

struct Series {
    std::string         name;
    std::vector<double> x; // empty: 0, 1, 2, …
    std::vector<double> y;
    std::vector<double> low, high; // a band around y; empty: none
};

struct LineChart {
    std::string         title;
    Axis                x, y;
    std::vector<Series> series;
};

struct BarSeries {
    std::string         name;
    std::vector<double> values;    // one per group
    std::vector<double> low, high; // ends of the error bars; empty: none
};

struct BarChart {
    std::string              title;
    std::string              x_label;
    Axis                     y; // always includes 0
    std::vector<std::string> groups;
    std::vector<BarSeries>   series;
};

enum class ColorMap { sequential, diverging };
enum class Scale { linear, log };    // log: what is not positive has the lowest colour
enum class Downsample { max, mean }; // what a cell shows of several values, where there are more than fit

struct Separator {
    size_t      column = 0; // the line is before it
    std::string label;      // of what begins there; written above
};

struct HeatMap {
    std::string                            title;
    std::string                            x_label, y_label;
    size_t                                 rows = 0, columns = 0;
    std::vector<float>                     values;     // [rows, columns]
    std::vector<std::string>               row_labels; // empty: numbers from 0
    std::vector<std::string>               column_labels;
    Axis                                   value; // its range is that of the colours; diverging: symmetric around 0
    ColorMap                               map        = ColorMap::sequential;
    Scale                                  scale      = Scale::linear;
    Downsample                             downsample = Downsample::max;
    bool                                   square     = false; // cells as high as wide
    std::vector<std::pair<size_t, size_t>> hatched;            // (row, column)
    std::string                            hatched_label;      // what hatching means
    std::vector<std::pair<size_t, size_t>> outlined;           // (row, column), a frame without hatching
    std::string                            outlined_label;
    std::vector<Separator>                 separators;
    std::vector<size_t>                    row_marks;    // rows with an arrow at their end
    std::vector<size_t>                    column_marks; // columns with one above
    std::string                            marks_label;
};

using Chart = std::variant<LineChart, BarChart, HeatMap>;

struct Figure {
    std::string        title, subtitle, caption;
    std::vector<Chart> charts;
    size_t             columns      = 1;     // of the grid of charts
    bool               shared_scale = false; // one range of values, one legend or colour bar for all charts of a kind
    double             width        = 0;     // CSS pixels; 0: by the number of columns
};

enum class Theme { light, dark };

// both: as the reader's system prefers; page: light, unless the page around it has svg_dark_rules
enum class SvgTheme { both, light, dark, page };

std::string render_svg(const Figure & figure, SvgTheme theme = SvgTheme::both);
std::string render_png(const Figure & figure, Theme theme = Theme::light, double scale = 2);

} // namespace buoy::figure
