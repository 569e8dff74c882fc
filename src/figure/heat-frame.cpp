#include "figure/heat-frame.h"

#include "figure/text.h"

#include <algorithm>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double label_max       = 80;   // length of a column's label
constexpr double row_label_share = 0.26; // of the width, at most
constexpr double label_room      = 1.04; // of a label's size, from one to the next
constexpr double mark_room       = 10;

// Labels get smaller, down to what can be read, before some are left out.
double label_size(double cell) { return std::clamp(cell / label_room, 7.5, size_token); }

std::string label_at(const std::vector<std::string> & labels, size_t i) {
    return labels.empty() ? std::to_string(i) : labels[i];
}

} // namespace

double HeatFrame::left_room() const {
    double widest = 0;
    for (size_t i = 0; i < map.row_labels.size(); i++) {
        widest =
            std::max(widest, text_width(cut_text(map.row_labels[i], size_token, row_label_share * width), size_token));
    }
    return std::ceil(map.row_labels.empty() ? text_width(std::to_string(map.rows), size_token) : widest) + 9 +
           (map.y_label.empty() ? 0 : 20);
}

double HeatFrame::above_room() const {
    const bool labelled =
        std::any_of(map.separators.begin(), map.separators.end(), [](const Separator & s) { return !s.label.empty(); });
    return (labelled ? 18 : 4) + (map.column_marks.empty() ? 0 : mark_room);
}

double HeatFrame::right_room() const { return map.row_marks.empty() ? 0 : mark_room; }

void HeatFrame::draw_separators() const {
    std::vector<Separator> sorted = map.separators;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Separator & a, const Separator & b) { return a.column < b.column; });
    const auto at = [&](size_t k) {
        return k < sorted.size() ? plot.x + cell_width() * static_cast<double>(std::min(sorted[k].column, map.columns))
                                 : plot.x + plot.w;
    };
    const double y    = plot.y - 6 - (map.column_marks.empty() ? 0 : mark_room);
    double       free = plot.x; // behind the last label
    for (size_t i = 0; i < sorted.size(); i++) {
        if (sorted[i].column > 0 && sorted[i].column < map.columns) {
            draw_line(scene, {at(i), plot.y - 3}, {at(i), plot.y + plot.h}, Paint(ink_light, 0.85), 3);
            draw_line(scene, {at(i), plot.y - 3}, {at(i), plot.y + plot.h}, ink_dark, 1);
        }
        const std::string before = clean_text(sorted[i].label) + " →";
        const double      right  = at(i + 1) - at(i) - 5;
        if (text_width(clean_text(sorted[i].label), size_tick) > right &&
            text_width(before, size_tick) <= at(i) - free - 5) { // there is more room before the line
            draw_text(scene, {at(i) - 2, y}, before, size_tick, Anchor::end, Role::muted);
            free = at(i);
        } else {
            const std::string label = cut_text(sorted[i].label, size_tick, right);
            draw_text(scene, {at(i) + 1, y}, label == "…" ? "" : label, size_tick, Anchor::start, Role::muted);
            free = at(i) + text_width(label, size_tick);
        }
    }
}

void HeatFrame::draw_marks() const {
    Path arrows;
    arrows.closed = true;
    arrows.fill   = Role::text;
    for (const size_t row : map.row_marks) {
        const double half = std::clamp(cell_height() / 2, 2.5, 4.0);
        const double x    = plot.x + plot.w + 3;
        const double y    = plot.y + cell_height() * (static_cast<double>(row) + 0.5);
        arrows.lines.push_back({{x, y}, {x + 7, y - half}, {x + 7, y + half}});
    }
    for (const size_t column : map.column_marks) {
        const double half = std::clamp(cell_width() / 2, 2.5, 4.0);
        const double x    = plot.x + cell_width() * (static_cast<double>(column) + 0.5);
        const double y    = plot.y - 3;
        arrows.lines.push_back({{x, y}, {x - half, y - 7}, {x + half, y - 7}});
    }
    if (!arrows.lines.empty()) {
        scene.items.push_back(std::move(arrows));
    }
}

void HeatFrame::draw_row_labels(double left) const {
    const double size = map.row_labels.empty() ? size_token : label_size(cell_height());
    const bool   all  = !map.row_labels.empty() || cell_height() >= label_room * size;
    for (const size_t i :
         thin_labels(map.rows, cell_height(), (all ? 1 : 2) * label_room * size)) { // numbers need not be dense
        const double y = plot.y + cell_height() * (static_cast<double>(i) + 0.5);
        draw_text(scene, {plot.x - 6, y + 0.35 * size},
                  cut_text(label_at(map.row_labels, i), size, row_label_share * width), size, Anchor::end, Role::muted);
    }
    draw_text(scene, {left + 11, plot.y + plot.h / 2},
              cut_text(map.y_label, size_label, std::max(plot.h, bar_height_min)), size_label, Anchor::middle,
              Role::text, true);
}

double HeatFrame::draw_column_labels() const {
    const double bottom = plot.y + plot.h;
    double       widest = map.column_labels.empty() ? text_width(std::to_string(map.columns), size_token) : 0;
    for (const std::string & label : map.column_labels) {
        widest = std::max(widest, text_width(cut_text(label, size_token, label_max), size_token));
    }
    const bool   upward = !map.column_labels.empty() && widest + 6 > cell_width();
    const double size   = upward ? label_size(cell_width()) : size_token;
    double       height = upward ? 0 : 18;
    for (const size_t i : thin_labels(map.columns, cell_width(), upward ? label_room * size : widest + 6)) {
        const double      x     = plot.x + cell_width() * (static_cast<double>(i) + 0.5);
        const std::string label = cut_text(label_at(map.column_labels, i), size, label_max);
        if (upward) {
            height = std::max(height, text_width(label, size) + 10);
            draw_text(scene, {x + 0.35 * size, bottom + 5}, label, size, Anchor::end, Role::muted, true);
        } else {
            draw_text(scene, {x, bottom + 14}, label, size, Anchor::middle, Role::muted);
        }
    }
    return height;
}

} // namespace buoy::figure
