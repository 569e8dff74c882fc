#pragma once

#include "figure/cover-mask.h"
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
    void draw(const Rect & rect);
    void draw(const Path & path);
    void draw(const Text & text);
    void draw(const Image & image);

    void stroke(const Lines & lines, double width, const Paint & paint);
    void paint(const CoverMask & mask, const Paint & paint);
    void blend(size_t x, size_t y, const Color & color, double alpha);

    size_t             width_, height_;
    double             scale_;
    Theme              theme_;
    std::vector<Color> pixels_;
};

} // namespace buoy::figure
