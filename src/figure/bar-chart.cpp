#include "buoy/message.h"
#include "figure/chart.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

bool has_error_bar(const BarSeries & series, size_t i) {
    return !series.low.empty() && std::isfinite(series.low[i]) && std::isfinite(series.high[i]);
}

void check(const BarChart & chart) {
    for (const BarSeries & series : chart.series) {
        const size_t n         = chart.groups.size();
        const bool   no_errors = series.low.empty() && series.high.empty();
        if (series.values.size() != n || (!no_errors && (series.low.size() != n || series.high.size() != n))) {
            fail("bars ", in_quotes(series.name), ": expected ", n,
                 " values and as many ends of error bars or none, got ", series.values.size(), ", ", series.low.size(),
                 " and ", series.high.size());
        }
    }
}

void draw_bars(Scene & scene, const BarChart & chart, const Box & plot, const Range & range) {
    const auto   n_series = static_cast<double>(chart.series.size());
    const double group    = plot.w / static_cast<double>(chart.groups.size());
    const double width    = std::min(46.0, group * 0.78 / n_series);
    const auto   y_of     = [&](double v) { return plot.y + plot.h * (1 - std::clamp(range.position(v), 0.0, 1.0)); };
    const double zero     = y_of(0);

    for (size_t g = 0; g < chart.groups.size(); g++) {
        const double first = plot.x + group * (static_cast<double>(g) + 0.5) - width * n_series / 2;
        for (size_t s = 0; s < chart.series.size(); s++) {
            const double value = chart.series[s].values[g];
            if (!std::isfinite(value)) {
                continue;
            }
            const double      x     = first + width * static_cast<double>(s);
            const double      gap   = std::min(1.0, width * 0.1);
            const double      top   = std::min(zero, y_of(value));
            const std::string title = cut_text(chart.groups[g], size_label, 200) + ", " +
                                      cut_text(chart.series[s].name, size_label, 200) + ": " + short_number(value);
            scene.items.push_back(
                Rect{{x + gap, top, width - 2 * gap, std::abs(y_of(value) - zero)}, Paint::of_series(s), title});
            if (has_error_bar(chart.series[s], g)) {
                const double middle = x + width / 2;
                const double cap    = std::min(4.0, width * 0.3);
                const double y0     = y_of(chart.series[s].low[g]);
                const double y1     = y_of(chart.series[s].high[g]);
                const Path   bar    = {{{{middle, y0}, {middle, y1}},
                                        {{middle - cap, y0}, {middle + cap, y0}},
                                        {{middle - cap, y1}, {middle + cap, y1}}},
                                       false,
                                       {},
                                       {},
                                       ""};
                for (const Stroke & stroke : {Stroke{Role::background, 3.2, {}}, Stroke{Role::text, 1.2, {}}}) {
                    scene.items.push_back(bar);
                    std::get<Path>(scene.items.back()).stroke = stroke;
                }
            }
        }
    }
}

// The name in lines that fit between its neighbours, or none if it would have to be cut or broken within a word.
std::vector<std::string> wrapped_name(const std::string & name, double width) {
    const std::string clean = clean_text(name);
    for (size_t begin = 0, end = 0; begin < clean.size(); begin = end + 1) {
        end = std::min(clean.find(' ', begin), clean.size());
        if (text_width(clean.substr(begin, end - begin), size_tick) > width) {
            return {};
        }
    }
    const std::vector<std::string> lines = wrap_text(name, size_tick, width, 4);
    return lines.size() < 4 ? lines : std::vector<std::string>{};
}

// Names of the groups below the plot; the height they took.
double draw_groups(Scene & scene, const BarChart & chart, const Box & plot) {
    constexpr double upward_max = 120;
    constexpr double leading    = 14;

    const double gap    = plot.w / static_cast<double>(std::max<size_t>(1, chart.groups.size()));
    const auto   middle = [&](size_t i) { return plot.x + gap * (static_cast<double>(i) + 0.5); };

    std::vector<std::vector<std::string>> names;
    for (const std::string & name : chart.groups) {
        names.push_back(wrapped_name(name, gap - 8));
        if (names.back().empty() && !name.empty()) {
            break;
        }
    }
    double height = 0;
    if (names.size() == chart.groups.size() &&
        (names.empty() || chart.groups.back().empty() || !names.back().empty())) {
        for (size_t i = 0; i < names.size(); i++) {
            for (size_t line = 0; line < names[i].size(); line++) {
                draw_text(scene, {middle(i), plot.y + plot.h + 16 + leading * static_cast<double>(line)},
                          names[i][line], size_tick, Anchor::middle, Role::muted);
            }
            height = std::max(height, 6 + leading * static_cast<double>(names[i].size()));
        }
        return height;
    }
    for (const size_t i : thin_labels(chart.groups.size(), gap, 13)) {
        const std::string name = cut_text(chart.groups[i], size_tick, upward_max);
        height                 = std::max(height, text_width(name, size_tick) + 10);
        draw_text(scene, {middle(i) + 4, plot.y + plot.h + 6}, name, size_tick, Anchor::end, Role::muted, true);
    }
    return height;
}

} // namespace

Range values_of(const BarChart & chart) {
    check(chart);
    Range range;
    for (const BarSeries & series : chart.series) {
        for (size_t i = 0; i < series.values.size(); i++) {
            if (std::isfinite(series.values[i])) {
                range.include(has_error_bar(series, i) ? series.low[i] : series.values[i]);
                range.include(has_error_bar(series, i) ? series.high[i] : series.values[i]);
            }
        }
    }
    if (!range.empty()) {
        range.include(0);
    }
    return range;
}

std::vector<KeyEntry> key_of(const BarChart & chart) {
    std::vector<KeyEntry> entries;
    for (size_t i = 0; i < chart.series.size() && (chart.series.size() > 1 || !chart.series[0].name.empty()); i++) {
        entries.push_back({KeyShape::bar, chart.series[i].name, i});
    }
    return entries;
}

Drawn draw_chart(Scene & scene, const BarChart & chart, const ChartPlace & place) {
    const Range     own    = values_of(chart);
    const Range     values = place.values ? *place.values : own;
    const TickStyle style  = {chart.y.percent, false};
    const double    height = std::round(std::clamp(place.width * 0.42, 120.0, 300.0));
    const auto      count  = static_cast<size_t>(height / 38);
    const Range     range  = limited(framed(values, count, style), chart.y);

    double y = place.at.y + draw_chart_title(scene, chart.title, place.at, place.width);
    y += place.key ? draw_key(scene, key_of(chart), {place.at.x, y}, place.width) : 0;

    const Ticks  ticks = values.empty() ? Ticks{} : nice_ticks(range, count + 1, style);
    const double left  = y_axis_width(ticks, chart.y);
    const Box    plot  = {place.at.x + left, std::round(y + 6), std::max(40.0, place.width - left - 8), height};
    draw_y_axis(scene, plot, range, ticks, chart.y, place.at.x);
    if (own.empty()) {
        draw_no_data(scene, plot);
    } else {
        draw_bars(scene, chart, plot, range);
    }
    const double zero = plot.y + plot.h * (1 - std::clamp(range.position(0), 0.0, 1.0));
    draw_line(scene, {plot.x, std::round(zero) + 0.5}, {plot.x + plot.w, std::round(zero) + 0.5}, Role::muted);

    y = plot.y + plot.h + draw_groups(scene, chart, plot);
    if (!chart.x_label.empty()) {
        draw_text(scene, {plot.x + plot.w / 2, y + 15}, cut_text(chart.x_label, size_label, plot.w), size_label,
                  Anchor::middle, Role::text);
        y += 20;
    }
    std::string description = "Bar chart" + (chart.title.empty() ? "" : " \"" + clean_text(chart.title) + "\"") + ": " +
                              std::to_string(chart.groups.size()) + " groups of " +
                              std::to_string(chart.series.size()) + " bars";
    description +=
        own.empty() ? ", no data." : ", from " + short_number(own.low) + " to " + short_number(own.high) + ".";
    return {y + 4 - place.at.y, {}, description};
}

} // namespace buoy::figure
