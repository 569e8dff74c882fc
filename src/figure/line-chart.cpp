#include "buoy/message.h"
#include "figure/chart.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

double x_of(const Series & series, size_t i) { return series.x.empty() ? static_cast<double>(i) : series.x[i]; }

void check(const Series & series) {
    const size_t n    = series.y.size();
    const auto   fits = [&](const std::vector<double> & values) { return values.empty() || values.size() == n; };
    if (!fits(series.x) || !fits(series.low) || !fits(series.high) || series.low.empty() != series.high.empty()) {
        fail("series ", in_quotes(series.name), ": expected ", n, " values of x, low and high or none, got ",
             series.x.size(), ", ", series.low.size(), " and ", series.high.size());
    }
}

struct LinePlot {
    Box   box;
    Range x, y;

    Point at(double vx, double vy) const {
        return {box.x + box.w * x.position(vx), box.y + box.h * (1 - y.position(vy))};
    }
    bool shows(const Point & p) const {
        return p.x >= box.x - 0.01 && p.x <= box.x + box.w + 0.01 && p.y >= box.y - 0.01 && p.y <= box.y + box.h + 0.01;
    }
};

// Runs of points without a gap.
std::vector<std::vector<Point>> runs_of(const Series & series, const LinePlot & plot) {
    std::vector<std::vector<Point>> runs(1);
    for (size_t i = 0; i < series.y.size(); i++) {
        if (std::isfinite(x_of(series, i)) && std::isfinite(series.y[i])) {
            runs.back().push_back(plot.at(x_of(series, i), series.y[i]));
        } else if (!runs.back().empty()) {
            runs.emplace_back();
        }
    }
    if (runs.back().empty()) {
        runs.pop_back();
    }
    return runs;
}

// Of the points that share half a pixel along x only the first, lowest, highest and last: the line looks the same.
std::vector<Point> simplified(const std::vector<Point> & line) {
    std::vector<Point> out;
    for (size_t i = 0, next = 0; i < line.size(); i = next) {
        size_t low = i, high = i;
        for (next = i + 1; next < line.size() && std::floor(2 * line[next].x) == std::floor(2 * line[i].x); next++) {
            low  = line[next].y < line[low].y ? next : low;
            high = line[next].y > line[high].y ? next : high;
        }
        std::vector<size_t> kept = {i, low, high, next - 1};
        std::sort(kept.begin(), kept.end());
        kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
        for (const size_t k : kept) {
            out.push_back(line[k]);
        }
    }
    return out;
}

void draw_band(Scene & scene, const Series & series, size_t index, const LinePlot & plot) {
    std::vector<Point> upper, lower;
    const auto         flush = [&] {
        if (upper.size() >= 2) {
            upper.insert(upper.end(), lower.rbegin(), lower.rend());
            scene.items.push_back(Path{{upper}, true, Paint::of_series(index, 0.18), {}, ""});
        }
        upper.clear();
        lower.clear();
    };
    for (size_t i = 0; i < series.low.size(); i++) {
        const double x = x_of(series, i);
        if (!std::isfinite(x) || !std::isfinite(series.low[i]) || !std::isfinite(series.high[i]) || x < plot.x.low ||
            x > plot.x.high) {
            flush();
            continue;
        }
        upper.push_back(plot.at(x, std::clamp(series.high[i], plot.y.low, plot.y.high)));
        lower.push_back(plot.at(x, std::clamp(series.low[i], plot.y.low, plot.y.high)));
    }
    flush();
}

void draw_series(Scene & scene, const Series & series, size_t index, const LinePlot & plot) {
    constexpr double marker_gap = 26; // at least, along x

    Path line;
    Path marks;
    line.title   = cut_text(series.name, size_label, 400);
    line.stroke  = series_stroke(index);
    marks.fill   = Paint::of_series(index);
    marks.closed = true;
    double last  = -1e9;
    for (const auto & run : runs_of(series, plot)) {
        for (auto & part : clip_line(simplified(run), plot.box)) {
            line.lines.push_back(std::move(part));
        }
        for (const Point & p : run) {
            if (plot.shows(p) && (run.size() == 1 || std::abs(p.x - last) >= marker_gap)) {
                marks.lines.push_back(marker(series_marker(index), p, 6));
                last = p.x;
            }
        }
    }
    if (!line.lines.empty()) {
        scene.items.push_back(std::move(line));
    }
    if (!marks.lines.empty()) {
        scene.items.push_back(std::move(marks));
    }
}

// Whole numbers on x (layers, steps) get whole ticks.
bool has_whole_x(const LineChart & chart) {
    for (const Series & series : chart.series) {
        for (const double x : series.x) {
            if (std::isfinite(x) && x != std::floor(x)) {
                return false;
            }
        }
    }
    return true;
}

void draw_x_axis(Scene & scene, const LinePlot & plot, const Ticks & ticks, const std::string & label) {
    const double bottom = plot.box.y + plot.box.h;
    double       end    = -1e9;
    for (size_t i = 0; i < ticks.values.size(); i++) {
        const double x    = plot.at(ticks.values[i], plot.y.low).x;
        const double half = text_width(ticks.labels[i], size_tick) / 2;
        draw_line(scene, {std::round(x) + 0.5, bottom}, {std::round(x) + 0.5, bottom + 4}, Role::muted);
        if (x - half >= end + 6) {
            draw_text(scene, {x, bottom + 16}, ticks.labels[i], size_tick, Anchor::middle, Role::muted);
            end = x + half;
        }
    }
    draw_line(scene, {plot.box.x, bottom + 0.5}, {plot.box.x + plot.box.w, bottom + 0.5}, Role::muted);
    draw_text(scene, {plot.box.x + plot.box.w / 2, bottom + 35}, cut_text(label, size_label, plot.box.w), size_label,
              Anchor::middle, Role::text);
}

std::string describe(const LineChart & chart, bool has_data) {
    std::string out = "Line chart" + (chart.title.empty() ? "" : " \"" + clean_text(chart.title) + "\"") + ": ";
    out += chart.y.label.empty() ? "values" : clean_text(chart.y.label);
    out += chart.x.label.empty() ? "" : " by " + clean_text(chart.x.label);
    if (!has_data) {
        return out + ", no data.";
    }
    for (size_t i = 0; i < chart.series.size() && i < 12; i++) {
        Range range;
        range.include(chart.series[i].y);
        out +=
            "; " + clean_text(chart.series[i].name) +
            (range.empty() ? " has no values" : " from " + short_number(range.low) + " to " + short_number(range.high));
    }
    return out + ".";
}

} // namespace

Range values_of(const LineChart & chart) {
    Range range;
    for (const Series & series : chart.series) {
        check(series);
        range.include(series.y);
        range.include(series.low);
        range.include(series.high);
    }
    return range;
}

std::vector<KeyEntry> key_of(const LineChart & chart) {
    std::vector<KeyEntry> entries;
    for (size_t i = 0; i < chart.series.size() && (chart.series.size() > 1 || !chart.series[0].name.empty()); i++) {
        entries.push_back({KeyShape::line, chart.series[i].name, i});
    }
    return entries;
}

Drawn draw_chart(Scene & scene, const LineChart & chart, const ChartPlace & place) {
    const Range     own     = values_of(chart);
    Range           values  = place.values ? *place.values : own;
    const TickStyle y_style = {chart.y.percent, false};
    const TickStyle x_style = {chart.x.percent, !chart.x.percent && has_whole_x(chart)};
    const double    height  = std::round(std::clamp(place.width * 0.48, 130.0, 340.0));
    const auto      y_count = static_cast<size_t>(height / 38);
    if (values.low > 0 && values.low < 0.5 * values.high) {
        values.low = 0;
    }
    Range xs;
    for (const Series & series : chart.series) {
        for (size_t i = 0; i < series.y.size(); i++) {
            xs.include(x_of(series, i));
        }
    }
    LinePlot plot;
    plot.x = limited(xs.empty() || xs.high > xs.low ? widened(xs) : Range{xs.low - 0.5, xs.high + 0.5}, chart.x);
    plot.x = widened(plot.x);
    plot.y = limited(framed(values, y_count, y_style), chart.y);

    double y = place.at.y + draw_chart_title(scene, chart.title, place.at, place.width);
    y += place.key ? draw_key(scene, key_of(chart), {place.at.x, y}, place.width) : 0;

    const Ticks  y_ticks = values.empty() ? Ticks{} : nice_ticks(plot.y, y_count + 1, y_style);
    const double left    = y_axis_width(y_ticks, chart.y);
    plot.box             = {place.at.x + left, std::round(y + 6), std::max(40.0, place.width - left - 16), height};
    const Ticks x_ticks  = xs.empty() ? Ticks{} : nice_ticks(plot.x, static_cast<size_t>(plot.box.w / 48), x_style);

    draw_y_axis(scene, plot.box, plot.y, y_ticks, chart.y, place.at.x);
    draw_x_axis(scene, plot, x_ticks, chart.x.label);
    for (size_t i = 0; i < chart.series.size(); i++) {
        draw_band(scene, chart.series[i], i, plot);
    }
    for (size_t i = 0; i < chart.series.size(); i++) {
        draw_series(scene, chart.series[i], i, plot);
    }
    if (own.empty()) {
        draw_no_data(scene, plot.box);
    }
    return {plot.box.y + height + (chart.x.label.empty() ? 24 : 42) - place.at.y, {}, describe(chart, !own.empty())};
}

} // namespace buoy::figure
