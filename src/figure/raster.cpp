#include "figure/raster.h"

#include "figure/font.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace buoy::figure {

Raster::Raster(size_t width, size_t height, double scale, Theme theme)
    : width_(width), height_(height), scale_(scale), theme_(theme),
      pixels_(width * height, resolve(Role::background, theme)) {}

void Raster::draw(const Scene & scene) {
    for (const Item & item : scene.items) {
        std::visit([&](const auto & it) { draw(it); }, item);
    }
}

void Raster::blend(size_t x, size_t y, const Color & color, double alpha) {
    Color &    pixel = pixels_[y * width_ + x];
    const auto mix   = [&](uint8_t below, uint8_t above) {
        return static_cast<uint8_t>(std::lround(below + (above - below) * alpha));
    };
    pixel = {mix(pixel.r, color.r), mix(pixel.g, color.g), mix(pixel.b, color.b)};
}

void Raster::paint(const CoverMask & mask, const Paint & paint) {
    const Color color = resolve(paint, theme_);
    for (size_t y = 0; y < mask.h; y++) {
        for (size_t x = 0; x < mask.w; x++) {
            const double cover = std::min(1.0f, mask.cover[y * mask.w + x]);
            if (cover > 0) {
                blend(mask.x + x, mask.y + y, color, cover * paint.alpha);
            }
        }
    }
}

void Raster::stroke(const Lines & lines, double width, const Paint & with) {
    CoverMask mask(lines, width / 2 + 1, width_, height_);
    for (const auto & line : lines) {
        for (size_t i = 1; i < line.size(); i++) {
            mask.stroke(line[i - 1], line[i], width / 2);
        }
    }
    paint(mask, with);
}

void Raster::draw(const Rect & rect) {
    const double x0    = rect.box.x * scale_;
    const double x1    = (rect.box.x + rect.box.w) * scale_;
    const double y0    = rect.box.y * scale_;
    const double y1    = (rect.box.y + rect.box.h) * scale_;
    const Color  color = resolve(rect.fill, theme_);
    const auto   xs    = pixel_range(x0, x1, width_);
    const auto   ys    = pixel_range(y0, y1, height_);
    for (size_t y = ys.first; y < ys.second; y++) {
        for (size_t x = xs.first; x < xs.second; x++) {
            blend(x, y, color, overlap(x0, x1, x) * overlap(y0, y1, y) * rect.fill.alpha);
        }
    }
}

void Raster::draw(const Path & path) {
    Lines lines = path.lines;
    for (auto & line : lines) {
        for (Point & p : line) {
            p = {p.x * scale_, p.y * scale_};
        }
    }
    if (path.fill.role != Role::none) {
        for (const auto & line : lines) {
            CoverMask mask({line}, 1, width_, height_);
            mask.fill(line);
            paint(mask, path.fill);
        }
    }
    if (path.stroke.paint.role == Role::none) {
        return;
    }
    std::vector<double> lengths = path.stroke.dash;
    for (double & length : lengths) {
        length *= scale_;
    }
    Lines pieces;
    for (auto & line : lines) {
        if (path.closed && !line.empty()) {
            line.push_back(line.front());
        }
        if (lengths.empty()) {
            pieces.push_back(line);
        } else {
            const auto parts = dashes(line, lengths);
            pieces.insert(pieces.end(), parts.begin(), parts.end());
        }
    }
    stroke(pieces, path.stroke.width * scale_, path.stroke.paint);
}

void Raster::draw(const Text & text) {
    const double unit  = text.size * scale_ / font_units;
    const double width = text_width(text.text, text.size, text.bold) * scale_;
    double       pen   = text.anchor == Anchor::start ? 0 : text.anchor == Anchor::middle ? -width / 2 : -width;

    Lines            lines;
    std::string_view rest = text.text;
    while (!rest.empty()) {
        const Glyph & shape = glyph(next_character(rest));
        for (const auto & stroke_points : shape.strokes) {
            auto & line = lines.emplace_back();
            for (const Point & p : stroke_points) {
                const double along = pen + (p.x + (text.bold ? 0.35 : 0)) * unit;
                const double up    = p.y * unit;
                line.push_back(text.upward ? Point{text.at.x * scale_ - up, text.at.y * scale_ - along}
                                           : Point{text.at.x * scale_ + along, text.at.y * scale_ - up});
            }
        }
        pen += (shape.advance + (text.bold ? 0.7 : 0)) * unit;
    }
    stroke(lines, (text.bold ? stroke_bold : stroke_plain) * unit, text.paint);
}

void Raster::draw(const Image & image) {
    // each pixel has the colour of the cell at its middle, so that cells keep sharp edges
    const double x0 = image.box.x * scale_;
    const double y0 = image.box.y * scale_;
    const double w  = image.box.w * scale_;
    const double h  = image.box.h * scale_;
    const auto   xs = pixel_range(std::round(x0), std::round(x0 + w), width_);
    const auto   ys = pixel_range(std::round(y0), std::round(y0 + h), height_);
    for (size_t y = ys.first; y < ys.second; y++) {
        const double v   = (static_cast<double>(y) + 0.5 - y0) / h * static_cast<double>(image.rows);
        const size_t row = std::min(static_cast<size_t>(std::max(v, 0.0)), image.rows - 1);
        for (size_t x = xs.first; x < xs.second; x++) {
            const double  u      = (static_cast<double>(x) + 0.5 - x0) / w * static_cast<double>(image.columns);
            const size_t  column = std::min(static_cast<size_t>(std::max(u, 0.0)), image.columns - 1);
            const Color & color  = image.cells[row * image.columns + column];
            blend(x, y, color, color.a / 255.0);
        }
    }
}

} // namespace buoy::figure
