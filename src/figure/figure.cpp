#include "figure/figure.h"

#include "buoy/error.h"
#include "figure/chart.h"
#include "figure/color-scale.h"
#include "figure/png.h"
#include "figure/svg.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double margin       = 16;
constexpr double gap          = 26; // between charts
constexpr double size_title   = 16;
constexpr double size_caption = 11.5;

double draw_paragraph(Scene & scene, const std::string & text, Point at, double size, double width, size_t lines_max,
                      const Paint & paint, bool bold = false) {
    const double leading = std::round(size * 1.35);
    double       y       = at.y;
    for (const std::string & line : wrap_text(text, size, width, lines_max, bold)) {
        scene.items.push_back(Text{{at.x, y + std::round(size * 0.9)}, line, size, Anchor::start, paint, bold, false});
        y += leading;
    }
    return y - at.y;
}

// All charts of one type, or nothing.
template <typename T> std::vector<const T *> all_of_type(const std::vector<Chart> & charts) {
    std::vector<const T *> out;
    for (const Chart & chart : charts) {
        const T * typed = std::get_if<T>(&chart);
        if (typed == nullptr) {
            return {};
        }
        out.push_back(typed);
    }
    return out;
}

template <typename T> Range common_range(const std::vector<Chart> & charts) {
    Range range;
    for (const Chart & chart : charts) {
        if (const T * typed = std::get_if<T>(&chart)) {
            const Range own = values_of(*typed);
            range.include(own.low <= own.high ? std::vector<double>{own.low, own.high} : std::vector<double>{});
        }
    }
    return range;
}

Range common_range(const std::vector<Chart> & charts, const Chart & like) {
    return std::visit([&](const auto & chart) { return common_range<std::decay_t<decltype(chart)>>(charts); }, like);
}

// The legend that all charts share, if they do.
template <typename T> std::vector<KeyEntry> common_key(const std::vector<Chart> & charts) {
    const auto typed = all_of_type<T>(charts);
    for (const T * chart : typed) {
        const auto first = key_of(*typed[0]);
        const auto key   = key_of(*chart);
        const bool same  = std::equal(first.begin(), first.end(), key.begin(), key.end(),
                                      [](const KeyEntry & a, const KeyEntry & b) { return a.text == b.text; });
        if (!same) {
            return {};
        }
    }
    return typed.empty() ? std::vector<KeyEntry>{} : key_of(*typed[0]);
}

// The heat map whose colour bar serves for all, if one does.
const HeatMap * common_scale(const std::vector<Chart> & charts) {
    const auto maps = all_of_type<HeatMap>(charts);
    const bool same = std::all_of(maps.begin(), maps.end(), [&](const HeatMap * map) {
        const Axis & a = map->value;
        const Axis & b = maps[0]->value;
        return map->map == maps[0]->map && map->scale == maps[0]->scale && a.label == b.label &&
               a.percent == b.percent && a.min == b.min && a.max == b.max;
    });
    return same && !maps.empty() ? maps[0] : nullptr;
}

double width_of(const Figure & figure, size_t columns) {
    constexpr double width_min = 240;
    constexpr double width_max = 8000;
    if (figure.width == 0) {
        return columns == 1 ? 760 : std::min(1240.0, 120 + 380 * static_cast<double>(columns));
    }
    if (!(figure.width >= width_min && figure.width <= width_max)) {
        fail("width of a figure: expected ", width_min, " to ", width_max, ", got ", figure.width);
    }
    return figure.width;
}

} // namespace

Scene layout(const Figure & figure) {
    const size_t columns = std::clamp<size_t>(figure.columns, 1, std::max<size_t>(1, figure.charts.size()));
    Scene        scene;
    scene.width       = width_of(figure, columns);
    scene.title       = clean_text(figure.title.empty() ? "Figure" : figure.title);
    const double full = scene.width - 2 * margin;

    double y = margin;
    y += draw_paragraph(scene, figure.title, {margin, y}, size_title, full, 3, Role::text, true);
    y += draw_paragraph(scene, figure.subtitle, {margin, y + 2}, size_label, full, 4, Role::muted) + 2;
    y += figure.title.empty() && figure.subtitle.empty() ? 0 : 8;

    const bool shared = figure.shared_scale && figure.charts.size() > 1;
    auto       key    = shared ? common_key<LineChart>(figure.charts) : std::vector<KeyEntry>{};
    key               = shared && key.empty() ? common_key<BarChart>(figure.charts) : key;
    y += draw_key(scene, key, {margin, y}, full);

    const HeatMap *           scaled = shared ? common_scale(figure.charts) : nullptr;
    double                    room   = full;
    std::optional<ColorScale> scale;
    if (scaled != nullptr) {
        scale.emplace(*scaled, common_range<HeatMap>(figure.charts));
        room -= color_bar_width + scale->bar_room() + 8;
    }
    const double top   = y;
    const double width = (room - gap * static_cast<double>(columns - 1)) / static_cast<double>(columns);

    std::vector<std::string> notes;
    std::vector<std::string> parts = {clean_text(figure.subtitle)};
    for (size_t first = 0; first < figure.charts.size(); first += columns) {
        double height = 0;
        for (size_t i = first; i < std::min(first + columns, figure.charts.size()); i++) {
            ChartPlace place;
            place.at    = {margin + (width + gap) * static_cast<double>(i - first), y};
            place.width = width;
            place.key   = key.empty() && !scale;
            if (shared) {
                place.values = common_range(figure.charts, figure.charts[i]);
            }
            const Drawn drawn =
                std::visit([&](const auto & chart) { return draw_chart(scene, chart, place); }, figure.charts[i]);
            height = std::max(height, drawn.height);
            parts.push_back(drawn.description);
            for (const std::string & note : drawn.notes) {
                if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
                    notes.push_back(note);
                }
            }
        }
        y += height + (first + columns < figure.charts.size() ? gap - 8 : 0);
    }
    if (scale) {
        const double height = std::clamp(y - top - 60, 84.0, 320.0);
        scale->draw_bar(scene, {margin + room + 8, top + 24, color_bar_width, height});
        y = std::max(y, top + 24 + height + 8);
    }
    std::string caption = figure.caption;
    for (const std::string & note : notes) {
        caption += (caption.empty() ? "" : " ") + note;
    }
    y += caption.empty() ? 0 : 8;
    y += draw_paragraph(scene, caption, {margin, y}, size_caption, full, 14, Role::muted);
    scene.height = std::ceil(y + margin);

    parts.push_back(clean_text(caption));
    for (const std::string & part : parts) {
        scene.description += (part.empty() || scene.description.empty() ? "" : " ") + part;
    }
    return scene;
}

std::string render_svg(const Figure & figure, SvgTheme theme) { return to_svg(layout(figure), theme); }

std::string render_png(const Figure & figure, Theme theme, double scale) {
    return to_png(layout(figure), theme, scale);
}

} // namespace buoy::figure
