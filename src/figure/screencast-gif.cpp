#include "figure/font.h"
#include "figure/gif.h"
#include "figure/raster.h"
#include "figure/screencast.h"

#include "buoy/utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace buoy::figure {

namespace {

using At = ScreenLayout;

// Shades from the screen to each ink, for smooth edges.
std::vector<Color> make_palette() {
    constexpr int      n_shades = 20;
    std::vector<Color> palette  = {screen_color};
    for (const TokenState state : {TokenState::settled, TokenState::fresh, TokenState::masked}) {
        const Color ink = ink_of(state);
        const auto  mix = [](uint8_t from, uint8_t to, int shade) {
            return static_cast<uint8_t>(std::lround(from + (to - from) * shade / static_cast<double>(n_shades)));
        };
        for (int shade = 1; shade <= n_shades; shade++) {
            palette.push_back({mix(screen_color.r, ink.r, shade), mix(screen_color.g, ink.g, shade),
                               mix(screen_color.b, ink.b, shade)});
        }
    }
    return palette;
}

class Indices {
public:
    explicit Indices(const std::vector<Color> & palette) : palette_(palette) {}

    uint8_t nearest(const Color & color) {
        const uint32_t key = uint32_t{color.r} << 16 | uint32_t{color.g} << 8 | color.b;
        const auto     hit = known_.find(key);
        if (hit != known_.end()) {
            return hit->second;
        }
        int    best     = std::numeric_limits<int>::max();
        size_t best_one = 0;
        for (size_t i = 0; i < palette_.size(); i++) {
            const int r = palette_[i].r - color.r, g = palette_[i].g - color.g, b = palette_[i].b - color.b;
            const int distance = r * r + g * g + b * b;
            if (distance < best) {
                best     = distance;
                best_one = i;
            }
        }
        return known_[key] = static_cast<uint8_t>(best_one);
    }

private:
    const std::vector<Color> &            palette_;
    std::unordered_map<uint32_t, uint8_t> known_;
};

// The font's letters differ in width: each is put into the middle of its cell, a wide one made narrower.
void add_glyph(Path & path, uint32_t code, double x, double width, bool bold) {
    constexpr double unit    = At::font_size / font_units;
    const Glyph &    shape   = glyph(code);
    const double     squeeze = std::min(1.0, width / (shape.advance * unit));
    const double     left    = x + (width - shape.advance * unit * squeeze) / 2;
    for (const auto & stroke : shape.strokes) {
        auto & line = path.lines.emplace_back();
        for (const Point & p : stroke) {
            line.push_back({left + p.x * unit * squeeze, At::base_line - p.y * unit});
        }
    }
    path.stroke.width = (bold ? stroke_bold : stroke_plain) * unit;
}

// Signs that are areas, which a font of strokes can't draw.
bool add_area(Scene & scene, std::string_view character, double x, const Paint & ink) {
    if (character == "░") {
        scene.items.emplace_back(Rect{{x + 1, 3, At::cell_width - 2, 15}, Paint(ink.color, 0.45), ""});
    } else if (character == "∎") {
        scene.items.emplace_back(Rect{{x + 1.5, 7, At::cell_width - 3, 9}, ink, ""});
    } else {
        return false;
    }
    return true;
}

Scene row_scene(const ScreenLine & line, double width) {
    Scene scene;
    scene.items.emplace_back(Rect{{0, 0, width, At::row_height}, screen_color, ""});
    double x = At::margin;
    for (const ScreenSpan & span : line) {
        const Paint ink = ink_of(span.state);
        Path        path;
        path.stroke.paint = ink;
        for (std::string_view rest = span.text; !rest.empty();) {
            const size_t           n         = utf8_character_length(rest);
            const std::string_view character = rest.substr(0, n);
            const double           room      = At::cell_width * utf8_width(character);
            if (!add_area(scene, character, x, ink)) {
                std::string_view one = character;
                add_glyph(path, next_character(one), x, room, span.state == TokenState::fresh);
            }
            x += room;
            rest.remove_prefix(n);
        }
        scene.items.emplace_back(std::move(path));
    }
    return scene;
}

class Painter {
public:
    explicit Painter(const Screencast & cast)
        : screens_(cast), at_(screens_, cast.columns), width_(static_cast<size_t>(std::ceil(at_.width))),
          height_(static_cast<size_t>(std::ceil(at_.height))), palette_(make_palette()), indices_(palette_),
          pixels_(width_ * height_, 0) {}

    std::string write(int milliseconds) {
        GifWriter gif(width_, height_, palette_);
        for (size_t i = 0; i < screens_.command.size(); i++) {
            draw(screens_.command[i], At::margin + at_.row(i));
        }
        for (size_t i = 0; i < screens_.all.size(); i++) {
            draw(screens_.all[i]);
            gif.add(pixels_, milliseconds + (i + 1 == screens_.all.size() ? last_frame_ms : 0));
        }
        return gif.finish();
    }

private:
    void draw(const Screen & screen) {
        for (size_t row = 0; row < screens_.text_rows; row++) {
            draw(row < screen.text.size() ? screen.text[row] : ScreenLine(), at_.text_top + at_.row(row));
        }
        draw(screen.status, at_.status_top);
    }

    // A row that shows the line already stays.
    void draw(const ScreenLine & line, double y) {
        const auto top          = static_cast<size_t>(y);
        const auto [it, is_new] = shown_.try_emplace(top);
        if (!is_new && it->second == line) {
            return;
        }
        it->second = line;
        Raster raster(width_, static_cast<size_t>(At::row_height), 1, Theme::dark);
        raster.draw(row_scene(line, at_.width));
        std::transform(raster.pixels().begin(), raster.pixels().end(),
                       pixels_.begin() + static_cast<std::ptrdiff_t>(top * width_),
                       [&](const Color & color) { return indices_.nearest(color); });
    }

    const Screens                          screens_;
    const ScreenLayout                     at_;
    const size_t                           width_, height_;
    const std::vector<Color>               palette_;
    Indices                                indices_;
    std::vector<uint8_t>                   pixels_; // [height, width]
    std::unordered_map<size_t, ScreenLine> shown_;  // by the row's top
};

} // namespace

std::string screencast_gif(const Screencast & cast) { return Painter(cast).write(cast.milliseconds); }

} // namespace buoy::figure
