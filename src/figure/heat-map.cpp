#include "base/checked.h"
#include "buoy/message.h"
#include "figure/chart.h"
#include "figure/color-scale.h"
#include "figure/heat-cells.h"
#include "figure/heat-frame.h"
#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double cell_max       = 56;
constexpr double row_height_max = 20;
constexpr double height_max     = 440;
constexpr double square_max     = 620;

// A box around the same middle that is not smaller than that.
Box at_least(const Box & box, double size) {
    const double dx = std::max(0.0, size - box.w) / 2;
    const double dy = std::max(0.0, size - box.h) / 2;
    return {box.x - dx, box.y - dy, box.w + 2 * dx, box.h + 2 * dy};
}

void check(const HeatMap & map) {
    const auto count = checked_mul(map.rows, map.columns);
    const auto what  = [&] { return concat("heat map ", in_quotes(map.title), " of ", map.rows, " x ", map.columns); };
    if (!count || *count != map.values.size()) {
        fail(what(), ": got ", map.values.size(), " values");
    }
    if ((!map.row_labels.empty() && map.row_labels.size() != map.rows) ||
        (!map.column_labels.empty() && map.column_labels.size() != map.columns)) {
        fail(what(), ": got ", map.row_labels.size(), " row labels and ", map.column_labels.size(), " column labels");
    }
    for (const auto * marked : {&map.hatched, &map.outlined}) {
        for (const auto & [row, column] : *marked) {
            if (row >= map.rows || column >= map.columns) {
                fail(what(), ": there is no cell (", row, ", ", column, ") to mark");
            }
        }
    }
    const auto outside = [](const std::vector<size_t> & marks, size_t n) {
        return std::any_of(marks.begin(), marks.end(), [n](size_t at) { return at >= n; });
    };
    if (outside(map.row_marks, map.rows) || outside(map.column_marks, map.columns)) {
        fail(what(), ": a row or column to mark is not there");
    }
}

class HeatPainter {
public:
    HeatPainter(Scene & scene, const HeatMap & map, const ChartPlace & place)
        : scene_(scene), map_(map), place_(place), values_(values_of(map)),
          scale_(map, place.values ? *place.values : values_), frame_{scene, map, place.width} {}

    Drawn draw();

private:
    double      place_plot(double y); // the y below it
    void        draw_cells();
    void        draw_marked(const std::vector<std::pair<size_t, size_t>> & marked, bool hatch);
    std::string describe() const;

    Scene &            scene_;
    const HeatMap &    map_;
    const ChartPlace & place_;
    Range              values_;
    ColorScale         scale_;
    HeatFrame          frame_;
    HeatCells          cells_;
};

double HeatPainter::place_plot(double y) {
    const double left    = frame_.left_room();
    const double bar     = place_.key ? 12 + color_bar_width + scale_.bar_room() : 6;
    const double room    = std::max(40.0, std::floor(place_.width - left - frame_.right_room() - bar));
    const auto   columns = static_cast<double>(std::max<size_t>(1, map_.columns));
    const auto   rows    = static_cast<double>(std::max<size_t>(1, map_.rows));
    const auto   crisp   = [](double cell) { return cell >= 3 ? std::floor(2 * cell) / 2 : cell; };

    double w = crisp(std::min(cell_max, room / columns));
    double h = crisp(std::min(row_height_max, height_max / rows));
    if (map_.square) {
        w = h = crisp(std::min({cell_max, room / columns, square_max / rows}));
    }
    Box & plot = frame_.plot;
    plot = {std::ceil(place_.at.x + left), std::ceil(y + frame_.above_room()), std::max(1.0, std::round(w * columns)),
            std::max(1.0, std::round(h * rows))};
    if (map_.values.empty()) {
        plot.w = room;
        plot.h = 80;
    }
    return plot.y + plot.h;
}

void HeatPainter::draw_cells() {
    if (cells_.has_absent) {
        scene_.items.push_back(Rect{frame_.plot, Role::absent, ""});
    }
    Image image{frame_.plot, cells_.rows, cells_.columns, {}};
    image.cells.reserve(cells_.values.size());
    for (const float value : cells_.values) {
        image.cells.push_back(std::isfinite(value) ? scale_.color(value) : Color{0, 0, 0, 0});
    }
    scene_.items.push_back(std::move(image));
}

void HeatPainter::draw_marked(const std::vector<std::pair<size_t, size_t>> & marked, bool hatch) {
    constexpr double gap = 5;

    const double w = frame_.plot.w / static_cast<double>(cells_.columns);
    const double h = frame_.plot.h / static_cast<double>(cells_.rows);
    Path         dark, light;
    dark.stroke  = {ink_dark, 1.1, {}};
    light.stroke = {ink_light, 1.1, {}};
    for (const auto & [row, column] : marked) {
        const Box box = {frame_.plot.x + static_cast<double>(column) * w, frame_.plot.y + static_cast<double>(row) * h,
                         w, h};
        const float value    = cells_.values[row * cells_.columns + column];
        const bool  on_light = !std::isfinite(value) || luminance(scale_.color(value)) > 0.22;
        Path &      path     = on_light ? dark : light;
        path.cells += concat(path.cells.empty() ? "" : " ", row, ",", column);
        if (hatch) {
            const auto lines = hatching(at_least(box, 3), gap);
            path.lines.insert(path.lines.end(), lines.begin(), lines.end());
        }
        if (!hatch || std::min(w, h) >= gap) {
            const Box    frame = hatch ? box : at_least(box, 4);
            const double x0 = frame.x + 0.6, x1 = frame.x + frame.w - 0.6, y0 = frame.y + 0.6,
                         y1 = frame.y + frame.h - 0.6;
            path.lines.push_back({{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}, {x0, y0}});
        }
    }
    for (Path * path : {&dark, &light}) {
        path->cells_name = hatch ? "hatched" : "outlined";
        if (!path->lines.empty()) {
            scene_.items.push_back(std::move(*path));
        }
    }
}

std::string HeatPainter::describe() const {
    std::string out = "Heat map" + (map_.title.empty() ? "" : " \"" + clean_text(map_.title) + "\"") + ": " +
                      std::to_string(map_.rows) + " rows by " + std::to_string(map_.columns) + " columns";
    out += map_.value.label.empty() ? "" : " of " + clean_text(map_.value.label);
    if (values_.empty()) {
        return out + ", no data.";
    }
    out += ", from " + short_number(values_.low) + " to " + short_number(values_.high);
    out += map_.hatched.empty() ? "" : "; " + std::to_string(map_.hatched.size()) + " cells hatched";
    return out + (map_.outlined.empty() ? "." : "; " + std::to_string(map_.outlined.size()) + " cells outlined.");
}

Drawn HeatPainter::draw() {
    double y = place_.at.y + draw_chart_title(scene_, map_.title, place_.at, place_.width);
    y += place_.key ? draw_key(scene_, key_of(map_), {place_.at.x, y}, place_.width) : 0;
    y = place_plot(y);
    if (map_.values.empty()) {
        draw_no_data(scene_, frame_.plot);
        return {y + 6 - place_.at.y, {}, describe()};
    }
    cells_ = heat_cells(map_, static_cast<size_t>(frame_.plot.w), static_cast<size_t>(frame_.plot.h));
    draw_cells();
    draw_marked(cells_.outlined, false);
    draw_marked(cells_.hatched, true);
    frame_.draw_separators();
    frame_.draw_marks();
    frame_.draw_row_labels(place_.at.x);
    y += frame_.draw_column_labels();
    if (!map_.x_label.empty()) {
        draw_text(scene_, {frame_.plot.x + frame_.plot.w / 2, y + 14},
                  cut_text(map_.x_label, size_label, std::max(frame_.plot.w, 120.0)), size_label, Anchor::middle,
                  Role::text);
        y += 20;
    }
    if (place_.key) {
        const double height = std::clamp(frame_.plot.h, bar_height_min, 320.0);
        scale_.draw_bar(
            scene_, {frame_.plot.x + frame_.plot.w + frame_.right_room() + 12, frame_.plot.y, color_bar_width, height});
        y = std::max(y, frame_.plot.y + height + 8);
    }
    return {y + 2 - place_.at.y, cells_.note, describe()};
}

} // namespace

Range values_of(const HeatMap & map) {
    check(map);
    Range range;
    for (const float value : map.values) {
        if (map.scale == Scale::linear || value > 0) {
            range.include(value);
        }
    }
    return range;
}

std::vector<KeyEntry> key_of(const HeatMap & map) {
    std::vector<KeyEntry> entries;
    if (!map.hatched.empty() && !map.hatched_label.empty()) {
        entries.push_back({KeyShape::hatch, map.hatched_label, 0});
    }
    if (!map.outlined.empty() && !map.outlined_label.empty()) {
        entries.push_back({KeyShape::outline, map.outlined_label, 0});
    }
    if (!map.marks_label.empty() && !(map.row_marks.empty() && map.column_marks.empty())) {
        entries.push_back({map.column_marks.empty() ? KeyShape::row_mark : KeyShape::column_mark, map.marks_label, 0});
    }
    if (std::any_of(map.values.begin(), map.values.end(), [](float v) { return !std::isfinite(v); })) {
        entries.push_back({KeyShape::absent, "no value", 0});
    }
    return entries;
}

Drawn draw_chart(Scene & scene, const HeatMap & map, const ChartPlace & place) {
    return HeatPainter(scene, map, place).draw();
}

} // namespace buoy::figure
