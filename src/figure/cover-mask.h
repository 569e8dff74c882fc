#pragma once

#include "figure/scene.h"

#include <cstddef>
#include <utility>
#include <vector>

// Shapes as areas of pixels, for the raster.

namespace buoy::figure {

using Lines = std::vector<std::vector<Point>>;

// Pixels of [0, size) that [low, high) touches, as first and one past the last.
std::pair<size_t, size_t> pixel_range(double low, double high, size_t size);

// How much of a pixel lies in [low, high).
double overlap(double low, double high, size_t pixel);

// The polyline cut into dashes.
Lines dashes(const std::vector<Point> & line, const std::vector<double> & lengths);

// How much of each pixel of an area is covered, 0 to 1.
struct CoverMask {
    // The area around the lines, inside a picture of that size.
    CoverMask(const Lines & lines, double margin, size_t width, size_t height);

    void stroke(Point a, Point b, double radius);
    void fill(const std::vector<Point> & polygon); // adds up; where a line winds around, it is inside

    size_t             x = 0, y = 0, w = 0, h = 0;
    std::vector<float> cover; // [h, w]
};

} // namespace buoy::figure
