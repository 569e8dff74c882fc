#pragma once

#include "figure/scene.h"

#include <cstddef>
#include <vector>

namespace buoy::figure {

// Draws scenes into pixels, anti-aliased. Colours are mixed as browsers do, in sRGB.
class Raster {
public:
    Raster(size_t width, size_t height, double scale, Theme theme);

    void draw(const Scene & scene);

    size_t                     width() const { return width_; }
    size_t                     height() const { return height_; }
    const std::vector<Color> & pixels() const { return pixels_; } // [height, width]

private:
    // How much of each pixel of an area is covered, 0 to 1.
    struct Mask {
        size_t             x = 0, y = 0, w = 0, h = 0;
        std::vector<float> cover;
    };

    void draw(const Rect & rect);
    void draw(const Path & path);
    void draw(const Text & text);
    void draw(const Image & image);

    Mask mask_of(const std::vector<std::vector<Point>> & lines, double margin) const;
    void fill_polygon(Mask & mask, const std::vector<Point> & polygon) const;
    void stroke_segment(Mask & mask, Point a, Point b, double radius) const;
    void stroke(const std::vector<std::vector<Point>> & lines, double width, const Paint & paint);
    void paint(const Mask & mask, const Paint & paint);
    void blend(size_t x, size_t y, const Color & color, double alpha);

    size_t             width_, height_;
    double             scale_;
    Theme              theme_;
    std::vector<Color> pixels_;
};

// The polyline cut into dashes.
std::vector<std::vector<Point>> dashes(const std::vector<Point> & line, const std::vector<double> & lengths);

} // namespace buoy::figure
