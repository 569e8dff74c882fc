#include "figure/raster.h"

#include "figure/font.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace buoy::figure {

namespace {

// Pixels of [0, size) that [low, high) touches, as first and one past the last.
std::pair<size_t, size_t> pixel_range(double low, double high, size_t size) {
    const double end   = static_cast<double>(size);
    const double first = std::clamp(std::floor(low), 0.0, end);
    const double last  = std::clamp(std::ceil(high), first, end);
    return {static_cast<size_t>(first), static_cast<size_t>(last)};
}

double overlap(double low, double high, size_t pixel) {
    const auto at = static_cast<double>(pixel);
    return std::max(0.0, std::min(high, at + 1) - std::max(low, at));
}

} // namespace

std::vector<std::vector<Point>> dashes(const std::vector<Point> & line, const std::vector<double> & lengths) {
    std::vector<std::vector<Point>> parts;
    size_t                          index = 0;
    double                          left  = lengths[0];
    for (size_t i = 1; i < line.size(); i++) {
        Point        a      = line[i - 1];
        const Point  b      = line[i];
        const double length = std::hypot(b.x - a.x, b.y - a.y);
        double       done   = 0;
        if (index % 2 == 0) {
            if (parts.empty() || i == 1) parts.push_back({a});
        }
        while (length - done > left) {
            done += left;
            const Point at = {a.x + (b.x - a.x) * done / length, a.y + (b.y - a.y) * done / length};
            if (index % 2 == 0) {
                parts.back().push_back(at);
            } else {
                parts.push_back({at});
            }
            index = (index + 1) % lengths.size();
            left  = std::max(lengths[index], 0.1);
        }
        left -= length - done;
        if (index % 2 == 0) {
            parts.back().push_back(b);
        }
    }
    return parts;
}

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

void Raster::paint(const Mask & mask, const Paint & paint) {
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

Raster::Mask Raster::mask_of(const std::vector<std::vector<Point>> & lines, double margin) const {
    double x0 = 1e9, y0 = 1e9, x1 = -1e9, y1 = -1e9;
    for (const auto & line : lines) {
        for (const Point & p : line) {
            x0 = std::min(x0, p.x);
            y0 = std::min(y0, p.y);
            x1 = std::max(x1, p.x);
            y1 = std::max(y1, p.y);
        }
    }
    Mask       mask;
    const auto columns = pixel_range(x0 - margin, x1 + margin, width_);
    const auto rows    = pixel_range(y0 - margin, y1 + margin, height_);
    mask.x             = columns.first;
    mask.w             = columns.second - columns.first;
    mask.y             = rows.first;
    mask.h             = rows.second - rows.first;
    mask.cover.assign(mask.w * mask.h, 0.0f);
    return mask;
}

void Raster::stroke_segment(Mask & mask, Point a, Point b, double radius) const {
    // a pen thinner than a pixel covers it in part
    const double strength = std::min(1.0, 2 * radius);
    const double inner    = std::max(radius, 0.5);
    const double reach    = inner + 0.5;
    const double dx       = b.x - a.x;
    const double dy       = b.y - a.y;
    const double square   = dx * dx + dy * dy;
    const auto   rows     = pixel_range(std::min(a.y, b.y) - reach, std::max(a.y, b.y) + reach, height_);
    for (size_t y = rows.first; y < rows.second; y++) {
        const double py = static_cast<double>(y) + 0.5;
        // the part of the segment that can reach this row
        double t0 = 0, t1 = 1;
        if (std::abs(dy) > 1e-9) {
            const double u = (py - reach - a.y) / dy;
            const double v = (py + reach - a.y) / dy;
            t0             = std::clamp(std::min(u, v), 0.0, 1.0);
            t1             = std::clamp(std::max(u, v), 0.0, 1.0);
        }
        const double xa      = a.x + t0 * dx;
        const double xb      = a.x + t1 * dx;
        const auto   columns = pixel_range(std::min(xa, xb) - reach, std::max(xa, xb) + reach, width_);
        for (size_t x = columns.first; x < columns.second; x++) {
            if (x < mask.x || y < mask.y || x >= mask.x + mask.w || y >= mask.y + mask.h) {
                continue;
            }
            const double px       = static_cast<double>(x) + 0.5;
            const double t        = square > 0 ? std::clamp(((px - a.x) * dx + (py - a.y) * dy) / square, 0.0, 1.0) : 0;
            const double ex       = px - a.x - t * dx;
            const double ey       = py - a.y - t * dy;
            const double distance = std::sqrt(ex * ex + ey * ey);
            const double cover    = std::clamp(inner - distance + 0.5, 0.0, 1.0) * strength;
            float &      at       = mask.cover[(y - mask.y) * mask.w + x - mask.x];
            at                    = std::max(at, static_cast<float>(cover));
        }
    }
}

void Raster::stroke(const std::vector<std::vector<Point>> & lines, double width, const Paint & with) {
    Mask mask = mask_of(lines, width / 2 + 1);
    for (const auto & line : lines) {
        for (size_t i = 1; i < line.size(); i++) {
            stroke_segment(mask, line[i - 1], line[i], width / 2);
        }
    }
    paint(mask, with);
}

void Raster::fill_polygon(Mask & mask, const std::vector<Point> & polygon) const {
    constexpr int n_sub = 8; // lines per row of pixels; along a line the cover is exact
    struct Crossing {
        double x;
        int    direction;
    };
    std::vector<Crossing> crossings;
    for (size_t row = 0; row < mask.h * n_sub; row++) {
        const double y = static_cast<double>(mask.y) + (static_cast<double>(row) + 0.5) / n_sub;
        crossings.clear();
        for (size_t i = 0; i < polygon.size(); i++) {
            const Point & a = polygon[i];
            const Point & b = polygon[(i + 1) % polygon.size()];
            if ((a.y <= y) != (b.y <= y)) {
                crossings.push_back({a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x), a.y <= y ? 1 : -1});
            }
        }
        std::sort(crossings.begin(), crossings.end(), [](const Crossing & a, const Crossing & b) { return a.x < b.x; });
        int winding = 0;
        for (size_t i = 0; i + 1 < crossings.size(); i++) {
            winding += crossings[i].direction;
            if (winding == 0) {
                continue;
            }
            const auto columns = pixel_range(crossings[i].x, crossings[i + 1].x, width_);
            for (size_t x = std::max(columns.first, mask.x); x < std::min(columns.second, mask.x + mask.w); x++) {
                mask.cover[row / n_sub * mask.w + x - mask.x] +=
                    static_cast<float>(overlap(crossings[i].x, crossings[i + 1].x, x) / n_sub);
            }
        }
    }
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
    std::vector<std::vector<Point>> lines = path.lines;
    for (auto & line : lines) {
        for (Point & p : line) {
            p = {p.x * scale_, p.y * scale_};
        }
    }
    if (path.fill.role != Role::none) {
        for (const auto & line : lines) {
            Mask mask = mask_of({line}, 1);
            fill_polygon(mask, line);
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
    std::vector<std::vector<Point>> pieces;
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

    std::vector<std::vector<Point>> lines;
    std::string_view                rest = text.text;
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
