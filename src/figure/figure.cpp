#include "buoy/figure.h"
#include "figure/layout.h"

#include "buoy/message.h"
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

// What the keys of all heat maps explain, each thing once.
std::vector<KeyEntry> united_key(const std::vector<Chart> & charts) {
    std::vector<KeyEntry> entries;
    for (const HeatMap * map : all_of_type<HeatMap>(charts)) {
        for (const KeyEntry & entry : key_of(*map)) {
            const bool known = std::any_of(entries.begin(), entries.end(), [&](const KeyEntry & e) {
                return e.shape == entry.shape && e.text == entry.text;
            });
            if (!known) {
                entries.push_back(entry);
            }
        }
    }
    return entries;
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

class FigurePainter {
public:
    explicit FigurePainter(const Figure & figure)
        : figure_(figure), columns_(std::clamp<size_t>(figure.columns, 1, std::max<size_t>(1, figure.charts.size()))),
          shared_(figure.shared_scale && figure.charts.size() > 1) {}

    Scene draw();

private:
    void draw_header();
    void share();
    void draw_charts();
    void draw_caption();
    void place_chart(size_t index, ChartPlace place);
    void say(const std::string & sentence);

    const Figure &            figure_;
    size_t                    columns_;
    bool                      shared_;
    Scene                     scene_;
    double                    y_        = margin;
    double                    full_     = 0; // width between the margins
    double                    room_     = 0; // of it, for charts
    bool                      own_keys_ = true;
    std::optional<ColorScale> scale_; // of all
    Range                     ranges_[std::variant_size_v<Chart>];
    double                    row_height_ = 0;
    std::vector<std::string>  notes_;
};

Scene FigurePainter::draw() {
    scene_.width = width_of(figure_, columns_);
    scene_.title = clean_text(figure_.title.empty() ? "Figure" : figure_.title);
    full_ = room_ = scene_.width - 2 * margin;
    draw_header();
    if (shared_) {
        share();
    }
    const double top = y_;
    draw_charts();
    if (scale_) {
        const double height = std::clamp(y_ - top - 60, 84.0, 320.0);
        scale_->draw_bar(scene_, {margin + room_ + 8, top + 24, color_bar_width, height});
        y_ = std::max(y_, top + 24 + height + 8);
    }
    draw_caption();
    scene_.height = std::ceil(y_ + margin);
    return std::move(scene_);
}

void FigurePainter::say(const std::string & sentence) {
    scene_.description += (sentence.empty() || scene_.description.empty() ? "" : " ") + sentence;
}

void FigurePainter::draw_header() {
    y_ += draw_paragraph(scene_, figure_.title, {margin, y_}, size_title, full_, 3, Role::text, true);
    y_ += draw_paragraph(scene_, figure_.subtitle, {margin, y_ + 2}, size_label, full_, 4, Role::muted) + 2;
    y_ += figure_.title.empty() && figure_.subtitle.empty() ? 0 : 8;
    say(clean_text(figure_.subtitle));
}

void FigurePainter::share() {
    ranges_[0] = common_range<LineChart>(figure_.charts);
    ranges_[1] = common_range<BarChart>(figure_.charts);
    ranges_[2] = common_range<HeatMap>(figure_.charts);

    std::vector<KeyEntry> key = common_key<LineChart>(figure_.charts);
    if (key.empty()) {
        key = common_key<BarChart>(figure_.charts);
    }
    if (const HeatMap * map = common_scale(figure_.charts)) {
        scale_.emplace(*map, ranges_[2]);
        room_ -= color_bar_width + scale_->bar_room() + 8;
        key = united_key(figure_.charts);
    }
    own_keys_ = key.empty() && !scale_;
    y_ += draw_key(scene_, key, {margin, y_}, full_);
}

void FigurePainter::place_chart(size_t index, ChartPlace place) {
    const Chart & chart = figure_.charts[index];
    place.key           = own_keys_;
    if (shared_) {
        place.values = ranges_[chart.index()];
    }
    const Drawn drawn = std::visit([&](const auto & it) { return draw_chart(scene_, it, place); }, chart);
    row_height_       = std::max(row_height_, drawn.height);
    say(drawn.description);
    if (!drawn.note.empty() && std::find(notes_.begin(), notes_.end(), drawn.note) == notes_.end()) {
        notes_.push_back(drawn.note);
    }
}

void FigurePainter::draw_charts() {
    const double width = (room_ - gap * static_cast<double>(columns_ - 1)) / static_cast<double>(columns_);
    for (size_t i = 0; i < figure_.charts.size(); i++) {
        ChartPlace place;
        place.at    = {margin + (width + gap) * static_cast<double>(i % columns_), y_};
        place.width = width;
        place_chart(i, place);
        const bool is_last = i + 1 == figure_.charts.size();
        if (is_last || i % columns_ + 1 == columns_) {
            y_ += row_height_ + (is_last ? 0 : gap - 8);
            row_height_ = 0;
        }
    }
}

void FigurePainter::draw_caption() {
    std::string caption = figure_.caption;
    for (const std::string & note : notes_) {
        caption += (caption.empty() ? "" : " ") + note;
    }
    y_ += caption.empty() ? 0 : 8;
    y_ += draw_paragraph(scene_, caption, {margin, y_}, size_caption, full_, 14, Role::muted);
    say(clean_text(caption));
}

} // namespace

Scene layout(const Figure & figure) { return FigurePainter(figure).draw(); }

std::string render_svg(const Figure & figure, SvgTheme theme) { return to_svg(layout(figure), theme); }

std::string render_png(const Figure & figure, Theme theme, double scale) {
    return to_png(layout(figure), theme, scale);
}

} // namespace buoy::figure
