#include "figure/font.h"

#include "buoy/utf8.h"
#include "figure/glyph-table.h"

#include <utf8proc.h>

#include <cmath>
#include <cstdlib>
#include <unordered_map>

namespace buoy::figure {

namespace {

constexpr uint32_t box_code = 0xfffd;

class StrokeReader {
public:
    explicit StrokeReader(const char * source) : p_(source) {}

    std::vector<std::vector<Point>> read() {
        while (*p_ != '\0') {
            command(*p_++);
        }
        return std::move(strokes_);
    }

private:
    double number() {
        while (*p_ == ' ') p_++;
        bool   negative = *p_ == '-';
        double value    = 0;
        double unit     = 1;
        bool   fraction = false;
        for (p_ += negative ? 1 : 0; (*p_ >= '0' && *p_ <= '9') || *p_ == '.'; p_++) { // strtod would follow the locale
            if (*p_ == '.') {
                fraction = true;
            } else {
                value = value * 10 + (*p_ - '0');
                unit *= fraction ? 10 : 1;
            }
        }
        return (negative ? -value : value) / unit;
    }

    Point point() {
        const double x = number();
        return {x, number()};
    }

    void command(char name) {
        switch (name) {
            case 'M': strokes_.push_back({point()}); break;
            case 'L': strokes_.back().push_back(point()); break;
            case 'D': {
                const Point at = point();
                strokes_.push_back({at, at});
                strokes_.push_back({{at.x, at.y + 0.25}, {at.x, at.y - 0.25}});
                break;
            }
            case 'C': curve(); break;
            case 'E': strokes_.emplace_back(); [[fallthrough]];
            case 'e': ellipse(); break;
            default: break;
        }
    }

    void curve() {
        const Point a = strokes_.back().back();
        const Point b = point();
        const Point c = point();
        const Point d = point();
        for (int i = 1; i <= 10; i++) {
            const double t = i / 10.0;
            const double s = 1 - t;
            strokes_.back().push_back({s * s * s * a.x + 3 * s * s * t * b.x + 3 * s * t * t * c.x + t * t * t * d.x,
                                       s * s * s * a.y + 3 * s * s * t * b.y + 3 * s * t * t * c.y + t * t * t * d.y});
        }
    }

    void ellipse() {
        const Point  center = point();
        const Point  radius = point();
        const double first  = number();
        const double last   = number();
        const int    count  = std::max(2, static_cast<int>(std::abs(last - first) / 12));
        for (int i = 0; i <= count; i++) {
            const double angle = (first + (last - first) * i / count) * 3.14159265358979323846 / 180;
            strokes_.back().push_back({center.x + radius.x * std::cos(angle), center.y + radius.y * std::sin(angle)});
        }
    }

    const char *                    p_;
    std::vector<std::vector<Point>> strokes_;
};

std::unordered_map<uint32_t, Glyph> read_glyphs() {
    std::unordered_map<uint32_t, Glyph> glyphs;
    for (const GlyphSource & source : glyph_sources()) {
        std::string_view character        = source.character;
        glyphs[next_character(character)] = {source.advance, StrokeReader(source.strokes).read()};
    }
    glyphs[box_code] = {12, StrokeReader("M2 0L2 13L10 13L10 0L2 0").read()};
    return glyphs;
}

} // namespace

uint32_t next_character(std::string_view & text) {
    utf8proc_int32_t code   = 0;
    const auto       length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &code);
    text.remove_prefix(length > 0 ? static_cast<size_t>(length) : 1);
    return length > 0 ? static_cast<uint32_t>(code) : box_code;
}

const Glyph & glyph(uint32_t code) {
    static const std::unordered_map<uint32_t, Glyph> glyphs = read_glyphs();
    static const Glyph                               nothing;

    auto found = glyphs.find(code);
    if (found == glyphs.end()) {
        const auto character = static_cast<utf8proc_int32_t>(code);
        if (utf8proc_charwidth(character) == 0) {
            return nothing;
        }
        utf8proc_int32_t base[8] = {};
        int              state   = 0;
        const auto       length  = utf8proc_decompose_char(
                   character, base, 8, static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &state);
        found = length > 0 && length <= 8 ? glyphs.find(static_cast<uint32_t>(base[0])) : glyphs.end();
    }
    return found != glyphs.end() ? found->second : glyphs.at(box_code);
}

} // namespace buoy::figure
