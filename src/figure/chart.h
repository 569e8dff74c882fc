#pragma once

#include "buoy/figure.h"
#include "figure/axis.h"
#include "figure/scene.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

// What the charts' drawing has in common; only for this folder.

namespace buoy::figure {

constexpr double size_chart_title = 13;
constexpr double size_label       = 12; // of axes and legends
constexpr double size_tick        = 11;
constexpr double size_token       = 10.5;

// on cells of any colour
constexpr Color ink_dark  = {0x10, 0x14, 0x1a};
constexpr Color ink_light = {0xff, 0xff, 0xff};

// What a figure decides for a chart.
struct ChartPlace {
    Point                at; // top left
    double               width = 0;
    std::optional<Range> values;     // instead of the chart's own
    bool                 key = true; // draw the legend, or the colour bar
};

struct Drawn {
    double      height = 0;
    std::string note;        // for the caption: what the picture leaves out
    std::string description; // for screen readers
};

Drawn draw_chart(Scene & scene, const LineChart & chart, const ChartPlace & place);
Drawn draw_chart(Scene & scene, const BarChart & chart, const ChartPlace & place);
Drawn draw_chart(Scene & scene, const HeatMap & chart, const ChartPlace & place);

// The values that a chart's axis or colours must span; empty without any. Checks that sizes agree.
Range values_of(const LineChart & chart);
Range values_of(const BarChart & chart);
Range values_of(const HeatMap & chart);

enum class KeyShape { line, bar, hatch, outline, absent, row_mark, column_mark };

struct KeyEntry {
    KeyShape    shape = KeyShape::line;
    std::string text;
    size_t      index = 0; // of the series
};

std::vector<KeyEntry> key_of(const LineChart & chart);
std::vector<KeyEntry> key_of(const BarChart & chart);
std::vector<KeyEntry> key_of(const HeatMap & chart);

// Entries side by side, in as many lines as they need; the height it took.
double draw_key(Scene & scene, const std::vector<KeyEntry> & entries, Point at, double width);

// The heading of one chart; the height it took.
double draw_chart_title(Scene & scene, const std::string & title, Point at, double width);

// How the line, the marker and the colour of a series look; more series than looks begin again.
Stroke      series_stroke(size_t index);
MarkerShape series_marker(size_t index);

// The range with what the axis asks for, which must make sense.
Range limited(Range range, const Axis & axis);

// Ticks, grid, line and label of a value axis at the left of the plot; `left` is where its label may begin.
void draw_y_axis(Scene & scene, const Box & plot, const Range & range, const Ticks & ticks, const Axis & axis,
                 double left);
// The room it needs at the left.
double y_axis_width(const Ticks & ticks, const Axis & axis);

void draw_text(Scene & scene, Point at, const std::string & text, double size, Anchor anchor, Paint paint,
               bool upward = false);
void draw_line(Scene & scene, Point from, Point to, const Paint & paint, double width = 1);
void draw_no_data(Scene & scene, const Box & plot);

} // namespace buoy::figure
