#include "figure/chart.h"

#include "buoy/message.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

Stroke series_stroke(size_t index) {
    static const std::vector<double> dash[] = {{}, {7, 4}, {1.5, 4}, {9, 4, 1.5, 4}, {4, 3}, {12, 4}};
    return {Paint::of_series(index), 1.8, dash[index % std::size(dash)]};
}

MarkerShape series_marker(size_t index) { return static_cast<MarkerShape>(index % marker_shape_count); }

Range limited(Range range, const Axis & axis) {
    for (const auto & bound : {axis.min, axis.max}) {
        if (bound && !std::isfinite(*bound)) {
            fail("axis ", in_quotes(axis.label), ": expected a finite bound, got ", *bound);
        }
    }
    range.low  = axis.min ? std::clamp(*axis.min, -value_max, value_max) : range.low;
    range.high = axis.max ? std::clamp(*axis.max, -value_max, value_max) : range.high;
    if (axis.min && axis.max && range.low >= range.high) {
        fail("axis ", in_quotes(axis.label), ": expected min < max, got ", *axis.min, " and ", *axis.max);
    }
    if (range.low >= range.high) { // all data lies beyond the one bound
        (axis.min ? range.high : range.low) = axis.min ? range.low + std::max(1.0, std::abs(range.low))
                                                       : range.high - std::max(1.0, std::abs(range.high));
    }
    return range;
}

void draw_text(Scene & scene, Point at, const std::string & text, double size, Anchor anchor, Paint paint,
               bool upward) {
    if (!text.empty()) {
        scene.items.push_back(Text{at, text, size, anchor, paint, false, upward});
    }
}

void draw_line(Scene & scene, Point from, Point to, const Paint & paint, double width) {
    scene.items.push_back(Path{{{from, to}}, false, {}, {paint, width, {}}, ""});
}

void draw_no_data(Scene & scene, const Box & plot) {
    draw_text(scene, {plot.x + plot.w / 2, plot.y + plot.h / 2 + 4}, cut_text("no data", size_label, plot.w),
              size_label, Anchor::middle, Role::muted);
}

double draw_chart_title(Scene & scene, const std::string & title, Point at, double width) {
    double y = at.y;
    for (const std::string & line : wrap_text(title, size_chart_title, width, 2, true)) {
        scene.items.push_back(Text{{at.x, y + 12}, line, size_chart_title, Anchor::start, Role::text, true, false});
        y += 17;
    }
    return y > at.y ? y - at.y + 3 : 0;
}

namespace {

constexpr double key_height = 18;
constexpr double key_sample = 26; // of a line

double sample_width(KeyShape shape) { return shape == KeyShape::line ? key_sample : 16; }

void draw_sample(Scene & scene, const KeyEntry & entry, Point at) {
    const double middle = at.y + 8;
    const Box    box    = {at.x, middle - 6, 14, 12};
    switch (entry.shape) {
        case KeyShape::line:
            scene.items.push_back(
                Path{{{{at.x, middle}, {at.x + key_sample - 2, middle}}}, false, {}, series_stroke(entry.index), ""});
            scene.items.push_back(Path{{marker(series_marker(entry.index), {at.x + key_sample / 2 - 1, middle}, 6)},
                                       true,
                                       Paint::of_series(entry.index),
                                       {},
                                       ""});
            break;
        case KeyShape::bar: scene.items.push_back(Rect{box, Paint::of_series(entry.index), ""}); break;
        case KeyShape::absent: scene.items.push_back(Rect{box, Role::absent, ""}); break;
        case KeyShape::hatch:
            scene.items.push_back(Path{hatching(box, 5), false, {}, {Role::text, 1.1, {}}, ""});
            [[fallthrough]];
        case KeyShape::outline:
            scene.items.push_back(
                Path{{{{box.x, box.y}, {box.x + box.w, box.y}, {box.x + box.w, box.y + box.h}, {box.x, box.y + box.h}}},
                     true,
                     {},
                     {Role::text, 1.1, {}},
                     ""});
            break;
        case KeyShape::column_mark:
            scene.items.push_back(Path{{{{box.x + 7, middle + 4}, {box.x + 3, middle - 3}, {box.x + 11, middle - 3}}},
                                       true,
                                       Role::text,
                                       {},
                                       ""});
            break;
        case KeyShape::row_mark:
            scene.items.push_back(Path{
                {{{box.x + 3, middle}, {box.x + 10, middle - 4}, {box.x + 10, middle + 4}}}, true, Role::text, {}, ""});
            break;
    }
}

} // namespace

double draw_key(Scene & scene, const std::vector<KeyEntry> & entries, Point at, double width) {
    constexpr double gap   = 18;
    constexpr size_t lines = 6;

    Point  pen  = at;
    size_t line = 1;
    for (size_t i = 0; i < entries.size(); i++) {
        const double      sample = sample_width(entries[i].shape);
        const std::string text   = cut_text(entries[i].text, size_label, std::min(380.0, width - sample - 8));
        const double      taken  = sample + 4 + text_width(text, size_label);
        if (pen.x > at.x && pen.x + taken > at.x + width) {
            if (line++ == lines) { // the rest is said, not shown
                draw_text(scene, {at.x, pen.y + key_height + 12}, "and " + std::to_string(entries.size() - i) + " more",
                          size_label, Anchor::start, Role::muted);
                pen.y += key_height;
                break;
            }
            pen = {at.x, pen.y + key_height};
        }
        draw_sample(scene, entries[i], pen);
        draw_text(scene, {pen.x + sample + 4, pen.y + 12}, text, size_label, Anchor::start, Role::text);
        pen.x += taken + gap;
    }
    return entries.empty() ? 0 : pen.y - at.y + key_height + 6;
}

double y_axis_width(const Ticks & ticks, const Axis & axis) {
    double width = 0;
    for (const std::string & label : ticks.labels) {
        width = std::max(width, text_width(label, size_tick));
    }
    return std::ceil(width) + 9 + (axis.label.empty() ? 0 : 20);
}

void draw_y_axis(Scene & scene, const Box & plot, const Range & range, const Ticks & ticks, const Axis & axis,
                 double left) {
    for (size_t i = 0; i < ticks.values.size(); i++) {
        const double y = std::round(plot.y + plot.h * (1 - range.position(ticks.values[i]))) + 0.5;
        draw_line(scene, {plot.x, y}, {plot.x + plot.w, y}, Role::grid);
        draw_text(scene, {plot.x - 7, y + 4}, ticks.labels[i], size_tick, Anchor::end, Role::muted);
    }
    draw_text(scene, {left + 11, plot.y + plot.h / 2}, cut_text(axis.label, size_label, plot.h), size_label,
              Anchor::middle, Role::text, true);
}

} // namespace buoy::figure
