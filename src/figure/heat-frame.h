#pragma once

#include "figure/chart.h"

// What stands around the cells of a heat map: labels, separators, marks.

namespace buoy::figure {

struct HeatFrame {
    Scene &         scene;
    const HeatMap & map;
    double          width = 0; // of the whole chart
    Box             plot  = {};

    double cell_width() const { return plot.w / static_cast<double>(map.columns); }
    double cell_height() const { return plot.h / static_cast<double>(map.rows); }

    double left_room() const;  // for the labels of rows
    double above_room() const; // for marks and the labels of separators
    double right_room() const; // for marks

    void   draw_separators() const;
    void   draw_marks() const;
    void   draw_row_labels(double left) const;
    double draw_column_labels() const; // the height it took
};

// Height that a heat map has at least where something stands beside it.
constexpr double bar_height_min = 84;

} // namespace buoy::figure
