#include "figure/scene.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

std::vector<Point> marker(MarkerShape shape, Point center, double size) {
    const double r  = size / 2;
    const auto   at = [&](double x, double y) { return Point{center.x + x * r, center.y + y * r}; };
    switch (shape) {
        case MarkerShape::square: return {at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)};
        case MarkerShape::triangle: return {at(0, -1.15), at(1.1, 0.8), at(-1.1, 0.8)};
        case MarkerShape::diamond: return {at(0, -1.3), at(1.1, 0), at(0, 1.3), at(-1.1, 0)};
        case MarkerShape::triangle_down: return {at(0, 1.15), at(-1.1, -0.8), at(1.1, -0.8)};
        case MarkerShape::cross:
            return {at(0, -0.45), at(0.7, -1.15), at(1.15, -0.7), at(0.45, 0),  at(1.15, 0.7),   at(0.7, 1.15),
                    at(0, 0.45),  at(-0.7, 1.15), at(-1.15, 0.7), at(-0.45, 0), at(-1.15, -0.7), at(-0.7, -1.15)};
        case MarkerShape::circle: break;
    }
    std::vector<Point> outline;
    for (int i = 0; i < 16; i++) {
        const double angle = i * 3.14159265358979323846 / 8;
        outline.push_back(at(std::cos(angle), std::sin(angle)));
    }
    return outline;
}

std::vector<std::vector<Point>> hatching(const Box & box, double gap) {
    // lines x + y = s
    std::vector<std::vector<Point>> lines;
    const auto                      add = [&](double s) {
        const double x0 = std::max(box.x, s - box.y - box.h);
        const double x1 = std::min(box.x + box.w, s - box.y);
        if (x1 > x0) {
            lines.push_back({{x0, s - x0}, {x1, s - x1}});
        }
    };
    if (std::min(box.w, box.h) < gap) { // a line of the common grid might only touch a corner
        lines.push_back({{box.x, box.y + box.h}, {box.x + box.w, box.y}});
        return lines;
    }
    const double first = std::ceil((box.x + box.y) / gap) * gap;
    for (double s = first; s < box.x + box.y + box.w + box.h; s += gap) {
        add(s);
    }
    return lines;
}

std::vector<std::vector<Point>> clip_line(const std::vector<Point> & line, const Box & box) {
    std::vector<std::vector<Point>> parts;
    bool                            open = false;
    for (size_t i = 1; i < line.size(); i++) {
        const Point  a           = line[i - 1];
        const Point  b           = line[i];
        double       t0          = 0;
        double       t1          = 1;
        const double edges[4][2] = {{a.x - b.x, a.x - box.x}, // Liang and Barsky 1984
                                    {b.x - a.x, box.x + box.w - a.x},
                                    {a.y - b.y, a.y - box.y},
                                    {b.y - a.y, box.y + box.h - a.y}};
        for (const auto & [p, q] : edges) {
            if (p < 0) {
                t0 = std::max(t0, q / p);
            } else if (p > 0) {
                t1 = std::min(t1, q / p);
            } else if (q < 0) {
                t1 = -1;
            }
        }
        if (t0 > t1) {
            open = false;
            continue;
        }
        const auto at = [&](double t) { return Point{a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}; };
        if (!open || t0 > 0) {
            parts.push_back({at(t0)});
        }
        parts.back().push_back(at(t1));
        open = t1 == 1;
    }
    return parts;
}

} // namespace buoy::figure
