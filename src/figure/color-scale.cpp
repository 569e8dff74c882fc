#include "figure/color-scale.h"

#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double log_decades_max = 8;
constexpr size_t n_colors        = 512;

Range log_range(const Range & positive) {
    if (positive.empty() || positive.high <= 0) {
        return {0.1, 1};
    }
    const double low = std::max(positive.low, positive.high * std::pow(10.0, -log_decades_max));
    return low < positive.high ? Range{low, positive.high} : Range{positive.high / 10, positive.high};
}

} // namespace

ColorScale::ColorScale(const HeatMap & map, Range values) : scale_(map.scale), map_(map.map), axis_(map.value) {
    for (size_t i = 0; i <= n_colors; i++) {
        const double t = static_cast<double>(i) / n_colors;
        colors_.push_back(map_ == ColorMap::sequential ? sequential_color(t) : diverging_color(t));
    }
    if (scale_ == Scale::log) {
        Axis axis = axis_;
        axis.min  = axis.min && *axis.min > 0 ? axis.min : std::nullopt;
        range_    = limited(log_range(values), axis);
        if (range_.low <= 0) {
            range_ = log_range(range_);
        }
        return;
    }
    if (map_ == ColorMap::diverging) {
        const double side = std::max(std::abs(values.low), std::abs(values.high));
        range_            = values.empty() || side < 1e-290 ? Range{-1, 1} : Range{-side, side};
    } else {
        range_ = widened(values);
        if (values.low >= 0 && (values.low < 0.5 * values.high || values.high == 0)) {
            range_ = {0, values.high > 0 ? range_.high : 1};
        }
    }
    range_ = limited(range_, axis_);
}

double ColorScale::position(double value) const {
    if (scale_ == Scale::log) {
        const double t = value > 0 ? std::log(value / range_.low) / std::log(range_.high / range_.low) : 0;
        return std::clamp(t, 0.0, 1.0);
    }
    return std::clamp(range_.position(value), 0.0, 1.0);
}

Color ColorScale::sample(double t) const {
    return colors_[static_cast<size_t>(std::lround(t * static_cast<double>(colors_.size() - 1)))];
}

Color ColorScale::color(double value) const { return sample(position(value)); }

Ticks ColorScale::ticks(double height) const {
    const auto      count = static_cast<size_t>(std::clamp(height / 30, 2.0, 8.0));
    const TickStyle style = {axis_.percent, false};
    return scale_ == Scale::log ? log_ticks(range_, count, style) : nice_ticks(range_, count, style);
}

double ColorScale::bar_room() const {
    double width = 0;
    for (const double height : {60.0, 120.0, 240.0}) { // more ticks may need more decimals
        for (const std::string & label : ticks(height).labels) {
            width = std::max(width, text_width(label, size_tick));
        }
    }
    return std::ceil(width) + 8 + (axis_.label.empty() ? 0 : 20);
}

void ColorScale::draw_bar(Scene & scene, const Box & box) const {
    constexpr size_t n = 128;

    Image bar{box, n, 1, {}};
    for (size_t i = 0; i < n; i++) {
        const double t = 1 - (static_cast<double>(i) + 0.5) / n;
        bar.cells.push_back(sample(t));
    }
    scene.items.push_back(bar);
    const Ticks  shown = ticks(box.h);
    const double right = box.x + box.w;
    double       width = 0;
    double       last  = box.y + box.h + size_label;
    for (size_t i = 0; i < shown.values.size(); i++) {
        const double y = std::clamp(box.y + box.h * (1 - position(shown.values[i])), box.y + 0.5, box.y + box.h - 0.5);
        draw_line(scene, {right, y}, {right + 3, y}, Role::muted);
        if (last - y < size_label) { // a logarithmic scale crowds its upper ticks
            continue;
        }
        last = y;
        draw_text(scene, {right + 6, y + 4}, shown.labels[i], size_tick, Anchor::start, Role::muted);
        width = std::max(width, text_width(shown.labels[i], size_tick));
    }
    draw_text(scene, {right + 6 + width + 16, box.y + box.h / 2}, cut_text(axis_.label, size_label, box.h), size_label,
              Anchor::middle, Role::text, true);
}

} // namespace buoy::figure
