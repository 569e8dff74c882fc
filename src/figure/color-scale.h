#pragma once

#include "buoy/figure.h"
#include "figure/axis.h"
#include "figure/chart.h"

namespace buoy::figure {

// Which colour a value of a heat map has.
class ColorScale {
public:
    // `values` is what the colours must span, before the map's own bounds.
    ColorScale(const HeatMap & map, Range values);

    Color         color(double value) const; // of a finite value
    const Range & range() const { return range_; }

    // A bar with ticks and the label of the values; `box` is the bar itself.
    void   draw_bar(Scene & scene, const Box & box) const;
    double bar_room() const; // right of the bar, for ticks and label

private:
    double position(double value) const; // 0 to 1
    Ticks  ticks(double height) const;

    Color sample(double t) const;

    Range              range_;
    Scale              scale_;
    ColorMap           map_;
    Axis               axis_;
    std::vector<Color> colors_;
};

constexpr double color_bar_width = 13;

} // namespace buoy::figure
