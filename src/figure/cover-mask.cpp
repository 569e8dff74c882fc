#include "figure/cover-mask.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

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

CoverMask::CoverMask(const Lines & lines, double margin, size_t width, size_t height) {
    double x0 = 1e9, y0 = 1e9, x1 = -1e9, y1 = -1e9;
    for (const auto & line : lines) {
        for (const Point & p : line) {
            x0 = std::min(x0, p.x);
            y0 = std::min(y0, p.y);
            x1 = std::max(x1, p.x);
            y1 = std::max(y1, p.y);
        }
    }
    const auto columns = pixel_range(x0 - margin, x1 + margin, width);
    const auto rows    = pixel_range(y0 - margin, y1 + margin, height);
    x                  = columns.first;
    w                  = columns.second - columns.first;
    y                  = rows.first;
    h                  = rows.second - rows.first;
    cover.assign(w * h, 0.0f);
}

void CoverMask::stroke(Point a, Point b, double radius) {
    // a pen thinner than a pixel covers it in part
    const double strength = std::min(1.0, 2 * radius);
    const double inner    = std::max(radius, 0.5);
    const double reach    = inner + 0.5;
    const double dx       = b.x - a.x;
    const double dy       = b.y - a.y;
    const double square   = dx * dx + dy * dy;
    const auto   rows     = pixel_range(std::min(a.y, b.y) - reach, std::max(a.y, b.y) + reach, y + h);
    for (size_t row = std::max(rows.first, y); row < rows.second; row++) {
        const double py = static_cast<double>(row) + 0.5;
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
        const auto   columns = pixel_range(std::min(xa, xb) - reach, std::max(xa, xb) + reach, x + w);
        for (size_t column = std::max(columns.first, x); column < columns.second; column++) {
            const double px       = static_cast<double>(column) + 0.5;
            const double t        = square > 0 ? std::clamp(((px - a.x) * dx + (py - a.y) * dy) / square, 0.0, 1.0) : 0;
            const double ex       = px - a.x - t * dx;
            const double ey       = py - a.y - t * dy;
            const double distance = std::sqrt(ex * ex + ey * ey);
            const double covered  = std::clamp(inner - distance + 0.5, 0.0, 1.0) * strength;
            float &      at       = cover[(row - y) * w + column - x];
            at                    = std::max(at, static_cast<float>(covered));
        }
    }
}

void CoverMask::fill(const std::vector<Point> & polygon) {
    constexpr int n_sub = 8; // lines per row of pixels; along a line the cover is exact
    struct Crossing {
        double x;
        int    direction;
    };
    std::vector<Crossing> crossings;
    for (size_t row = 0; row < h * n_sub; row++) {
        const double at = static_cast<double>(y) + (static_cast<double>(row) + 0.5) / n_sub;
        crossings.clear();
        for (size_t i = 0; i < polygon.size(); i++) {
            const Point & a = polygon[i];
            const Point & b = polygon[(i + 1) % polygon.size()];
            if ((a.y <= at) != (b.y <= at)) {
                crossings.push_back({a.x + (at - a.y) / (b.y - a.y) * (b.x - a.x), a.y <= at ? 1 : -1});
            }
        }
        std::sort(crossings.begin(), crossings.end(), [](const Crossing & a, const Crossing & b) { return a.x < b.x; });
        int winding = 0;
        for (size_t i = 0; i + 1 < crossings.size(); i++) {
            winding += crossings[i].direction;
            if (winding == 0) {
                continue;
            }
            const auto columns = pixel_range(crossings[i].x, crossings[i + 1].x, x + w);
            for (size_t column = std::max(columns.first, x); column < columns.second; column++) {
                cover[row / n_sub * w + column - x] +=
                    static_cast<float>(overlap(crossings[i].x, crossings[i + 1].x, column) / n_sub);
            }
        }
    }
}

} // namespace buoy::figure
