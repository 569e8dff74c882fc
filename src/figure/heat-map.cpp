#include "buoy/error.h"
#include "figure/chart.h"
#include "figure/color-scale.h"
#include "figure/heat-cells.h"
#include "figure/text.h"
#include "io/checked.h"
#include "io/printable.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double cell_max       = 56;
constexpr double row_height_max = 20;
constexpr double height_max     = 440;
constexpr double square_max     = 620;
constexpr double label_max      = 80; // length of a column's label
constexpr double bar_height_min = 84;
constexpr Color  ink_dark       = {0x10, 0x14, 0x1a};
constexpr Color  ink_light      = {0xff, 0xff, 0xff};

constexpr double row_label_share = 0.26; // of the width, at most
constexpr double label_room      = 1.04; // of a label's size, from one to the next

// Labels get smaller, down to what can be read, before some are left out.
double label_size(double cell) { return std::clamp(cell / label_room, 7.5, size_token); }

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
        fail(what(), ": got ", map.row_labels.size(), " labels of rows and ", map.column_labels.size(), " of columns");
    }
    for (const auto & [row, column] : map.hatched) {
        if (row >= map.rows || column >= map.columns) {
            fail(what(), ": there is no cell (", row, ", ", column, ") to hatch");
        }
    }
}

class HeatPainter {
public:
    HeatPainter(Scene & scene, const HeatMap & map, const ChartPlace & place)
        : scene_(scene), map_(map), place_(place), values_(values_of(map)),
          scale_(map, place.values ? *place.values : values_) {}

    Drawn draw();

private:
    double      place_plot(double y); // the y below it
    void        draw_cells();
    void        draw_hatching();
    void        draw_separators();
    void        draw_row_marks();
    void        draw_row_labels();
    double      draw_column_labels(); // the height it took
    double      row_label_room() const;
    std::string label_of(const std::vector<std::string> & labels, size_t i) const {
        return labels.empty() ? std::to_string(i) : labels[i];
    }
    std::string describe() const;

    double cell_width() const { return plot_.w / static_cast<double>(map_.columns); }
    double cell_height() const { return plot_.h / static_cast<double>(map_.rows); }

    Scene &            scene_;
    const HeatMap &    map_;
    const ChartPlace & place_;
    Range              values_;
    ColorScale         scale_;
    Box                plot_;
    HeatCells          cells_;
};

double HeatPainter::row_label_room() const {
    double width = 0;
    for (size_t i = 0; i < map_.row_labels.size(); i++) {
        width = std::max(
            width, text_width(cut_text(map_.row_labels[i], size_token, row_label_share * place_.width), size_token));
    }
    return std::ceil(map_.row_labels.empty() ? text_width(std::to_string(map_.rows), size_token) : width);
}

double HeatPainter::place_plot(double y) {
    const bool   labelled = std::any_of(map_.separators.begin(), map_.separators.end(),
                                        [](const Separator & s) { return !s.label.empty(); });
    const double left     = row_label_room() + 9 + (map_.y_label.empty() ? 0 : 20);
    const double marks    = map_.row_marks.empty() ? 0 : 10;
    const double bar      = place_.key ? 12 + color_bar_width + scale_.bar_room() : 6;
    const double room     = std::max(40.0, std::floor(place_.width - left - marks - bar));
    const auto   columns  = static_cast<double>(std::max<size_t>(1, map_.columns));
    const auto   rows     = static_cast<double>(std::max<size_t>(1, map_.rows));
    const auto   crisp    = [](double cell) { return cell >= 3 ? std::floor(cell) : cell; };

    double w = crisp(std::min(cell_max, room / columns));
    double h = crisp(std::min(row_height_max, height_max / rows));
    if (map_.square) {
        w = h = crisp(std::min({cell_max, room / columns, square_max / rows}));
    }
    plot_ = {std::ceil(place_.at.x + left), std::ceil(y + (labelled ? 18 : 4)), std::max(1.0, std::round(w * columns)),
             std::max(1.0, std::round(h * rows))};
    if (map_.values.empty()) {
        plot_.w = room;
        plot_.h = 80;
    }
    return plot_.y + plot_.h;
}

void HeatPainter::draw_cells() {
    if (cells_.has_absent) {
        scene_.items.push_back(Rect{plot_, Role::absent, ""});
    }
    Image image{plot_, cells_.rows, cells_.columns, {}};
    image.cells.reserve(cells_.values.size());
    for (const float value : cells_.values) {
        image.cells.push_back(std::isfinite(value) ? scale_.color(value) : Color{0, 0, 0, 0});
    }
    scene_.items.push_back(std::move(image));
}

void HeatPainter::draw_hatching() {
    constexpr double gap = 5;

    const double w = plot_.w / static_cast<double>(cells_.columns);
    const double h = plot_.h / static_cast<double>(cells_.rows);
    Path         dark, light;
    dark.stroke  = {ink_dark, 1.1, {}};
    light.stroke = {ink_light, 1.1, {}};
    for (const auto & [row, column] : cells_.hatched) {
        const Box   box   = {plot_.x + static_cast<double>(column) * w, plot_.y + static_cast<double>(row) * h, w, h};
        const float value = cells_.values[row * cells_.columns + column];
        const bool  on_light = !std::isfinite(value) || luminance(scale_.color(value)) > 0.22;
        Path &      path     = on_light ? dark : light;
        const auto  lines    = hatching(at_least(box, 3), gap);
        path.lines.insert(path.lines.end(), lines.begin(), lines.end());
        if (std::min(w, h) >= gap) {
            const double x0 = box.x + 0.6, x1 = box.x + w - 0.6, y0 = box.y + 0.6, y1 = box.y + h - 0.6;
            path.lines.push_back({{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}, {x0, y0}});
        }
    }
    for (Path * path : {&dark, &light}) {
        if (!path->lines.empty()) {
            scene_.items.push_back(std::move(*path));
        }
    }
}

void HeatPainter::draw_separators() {
    std::vector<Separator> sorted = map_.separators;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Separator & a, const Separator & b) { return a.column < b.column; });
    for (size_t i = 0; i < sorted.size(); i++) {
        const auto at = [&](size_t k) {
            return k < sorted.size()
                       ? plot_.x + cell_width() * static_cast<double>(std::min(sorted[k].column, map_.columns))
                       : plot_.x + plot_.w;
        };
        if (sorted[i].column > 0 && sorted[i].column < map_.columns) {
            draw_line(scene_, {at(i), plot_.y - 3}, {at(i), plot_.y + plot_.h}, Paint(ink_light, 0.85), 3);
            draw_line(scene_, {at(i), plot_.y - 3}, {at(i), plot_.y + plot_.h}, ink_dark, 1);
        }
        const std::string label = cut_text(sorted[i].label, size_tick, at(i + 1) - at(i) - 5);
        draw_text(scene_, {at(i) + 1, plot_.y - 6}, label == "…" ? "" : label, size_tick, Anchor::start, Role::muted);
    }
}

void HeatPainter::draw_row_marks() {
    Path arrows;
    arrows.closed     = true;
    arrows.fill       = Role::text;
    const double x    = plot_.x + plot_.w + 3;
    const double half = std::clamp(cell_height() / 2, 1.5, 4.0);
    for (const size_t row : map_.row_marks) {
        if (row < map_.rows) {
            const double y = plot_.y + cell_height() * (static_cast<double>(row) + 0.5);
            arrows.lines.push_back({{x, y}, {x + 7, y - half}, {x + 7, y + half}});
        }
    }
    if (!arrows.lines.empty()) {
        scene_.items.push_back(std::move(arrows));
    }
}

void HeatPainter::draw_row_labels() {
    const double size = map_.row_labels.empty() ? size_token : label_size(cell_height());
    const bool   all  = !map_.row_labels.empty() || cell_height() >= label_room * size;
    for (const size_t i :
         thin_labels(map_.rows, cell_height(), (all ? 1 : 2) * label_room * size)) { // numbers need not be dense
        const double y = plot_.y + cell_height() * (static_cast<double>(i) + 0.5);
        draw_text(scene_, {plot_.x - 6, y + 0.35 * size},
                  cut_text(label_of(map_.row_labels, i), size, row_label_share * place_.width), size, Anchor::end,
                  Role::muted);
    }
    draw_text(scene_, {place_.at.x + 11, plot_.y + plot_.h / 2},
              cut_text(map_.y_label, size_label, std::max(plot_.h, bar_height_min)), size_label, Anchor::middle,
              Role::text, true);
}

double HeatPainter::draw_column_labels() {
    const double bottom = plot_.y + plot_.h;
    double       widest = map_.column_labels.empty() ? text_width(std::to_string(map_.columns), size_token) : 0;
    for (const std::string & label : map_.column_labels) {
        widest = std::max(widest, text_width(cut_text(label, size_token, label_max), size_token));
    }
    const bool   upward = !map_.column_labels.empty() && widest + 6 > cell_width();
    const double size   = upward ? label_size(cell_width()) : size_token;
    double       height = upward ? 0 : 18;
    for (const size_t i : thin_labels(map_.columns, cell_width(), upward ? label_room * size : widest + 6)) {
        const double      x     = plot_.x + cell_width() * (static_cast<double>(i) + 0.5);
        const std::string label = cut_text(label_of(map_.column_labels, i), size, label_max);
        if (upward) {
            height = std::max(height, text_width(label, size) + 10);
            draw_text(scene_, {x + 0.35 * size, bottom + 5}, label, size, Anchor::end, Role::muted, true);
        } else {
            draw_text(scene_, {x, bottom + 14}, label, size, Anchor::middle, Role::muted);
        }
    }
    return height;
}

std::string HeatPainter::describe() const {
    std::string out = "Heat map" + (map_.title.empty() ? "" : " \"" + clean_text(map_.title) + "\"") + ": " +
                      std::to_string(map_.rows) + " rows by " + std::to_string(map_.columns) + " columns";
    out += map_.value.label.empty() ? "" : " of " + clean_text(map_.value.label);
    if (values_.empty()) {
        return out + ", no data.";
    }
    out += ", from " + short_number(values_.low) + " to " + short_number(values_.high);
    return out + (map_.hatched.empty() ? "." : "; " + std::to_string(map_.hatched.size()) + " cells hatched.");
}

Drawn HeatPainter::draw() {
    double y = place_.at.y + draw_chart_title(scene_, map_.title, place_.at, place_.width);
    y += place_.key ? draw_key(scene_, key_of(map_), {place_.at.x, y}, place_.width) : 0;
    y = place_plot(y);
    if (map_.values.empty()) {
        draw_no_data(scene_, plot_);
        return {y + 6 - place_.at.y, {}, describe()};
    }
    cells_ = heat_cells(map_, static_cast<size_t>(plot_.w), static_cast<size_t>(plot_.h));
    draw_cells();
    draw_hatching();
    draw_separators();
    draw_row_marks();
    draw_row_labels();
    y += draw_column_labels();
    if (!map_.x_label.empty()) {
        draw_text(scene_, {plot_.x + plot_.w / 2, y + 14}, cut_text(map_.x_label, size_label, std::max(plot_.w, 120.0)),
                  size_label, Anchor::middle, Role::text);
        y += 20;
    }
    if (place_.key) {
        const double height = std::clamp(plot_.h, bar_height_min, 320.0);
        const double marks  = map_.row_marks.empty() ? 0 : 10;
        scale_.draw_bar(scene_, {plot_.x + plot_.w + marks + 12, plot_.y, color_bar_width, height});
        y = std::max(y, plot_.y + height + 8);
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
    if (!map.row_marks.empty() && !map.row_marks_label.empty()) {
        entries.push_back({KeyShape::mark, map.row_marks_label, 0});
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
