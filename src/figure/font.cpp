#include "figure/font.h"

#include "text/utf8.h"

#include <utf8proc.h>

#include <cmath>
#include <cstdlib>
#include <unordered_map>

namespace buoy::figure {

namespace {

struct GlyphSource {
    const char * character; // UTF-8
    double       advance;
    // M x y: begin a stroke; L x y: a line to; C x1 y1 x2 y2 x y: a Bézier curve to; D x y: a dot.
    // E cx cy rx ry a b: a stroke along an ellipse from angle a to b in degrees; e: the same, joined to the stroke so far.
    const char * strokes;
};

constexpr GlyphSource sources[] = {
    {" ", 5.5, ""},
    {"!", 5.5, "M2.75 14L2.75 4.5D2.75 0.6"},
    {"\"", 7.5, "M2.4 14L2.4 9.8M5.1 14L5.1 9.8"},
    {"#", 12.5, "M5 13.5L3.4 0.5M9.6 13.5L8 0.5M1.6 9.2L11.6 9.2M1 4.8L11 4.8"},
    {"$", 12, "E6 10.1 3.7 3.1 35 270e6 3.7 4.1 3.3 90 -150M6 15.6L6 -1.8"},
    {"%", 17, "E4.4 10.5 2.9 3.5 0 360E12.6 3.5 2.9 3.5 0 360M12.6 14L4.4 0"},
    {"&", 14,
     "M12.8 0L4.2 9.7C2.6 11.8 3.8 14 6 14C8.4 14 9.2 11.4 7.2 9.7L4.6 7.8C0.8 5.6 1.4 0 5.9 0C9 0 11.2 2.6 11.6 6.6"},
    {"'", 4.5, "M2.25 14L2.25 9.8"},
    {"(", 7, "M5.4 15.5C1.4 11 1.4 1 5.4 -3.5"},
    {")", 7, "M1.6 15.5C5.6 11 5.6 1 1.6 -3.5"},
    {"*", 9, "M4.5 14L4.5 8M1.9 12.5L7.1 9.5M7.1 12.5L1.9 9.5"},
    {"+", 12, "M6 11.5L6 2.5M1.5 7L10.5 7"},
    {",", 5.5, "M3.2 0.8L2 -2.6"},
    {"-", 7.5, "M1.5 5.5L6 5.5"},
    {".", 5.5, "D2.75 0.6"},
    {"/", 8, "M0.8 -1.5L7.2 15"},
    {"0", 11.5, "E5.75 7 4 7 0 360"},
    {"1", 11.5, "M2.8 11.2L6.2 14L6.2 0"},
    {"2", 11.5, "E5.7 10.1 3.9 3.9 165 -35L1.8 0L9.9 0"},
    {"3", 11.5, "E5.4 10.6 3.5 3.4 150 -90e5.4 3.6 4.2 3.6 90 -150"},
    {"4", 11.5, "M7.8 0L7.8 14L1.4 4.2L10.3 4.2"},
    {"5", 11.5, "M9.2 14L3 14L2.5 7.4e5.5 4.5 4.2 4.5 130 -150"},
    {"6", 11.5, "E5.8 4.5 4 4.5 0 360M1.8 4.5C1.8 10.5 4 14.2 8.8 13.7"},
    {"7", 11.5, "M1.6 14L9.9 14L4.4 0"},
    {"8", 11.5, "E5.75 10.6 3.4 3.4 0 360E5.75 3.6 4.1 3.6 0 360"},
    {"9", 11.5, "E5.7 9.5 4 4.5 0 360M9.7 9.5C9.7 3.5 7.5 -0.2 2.7 0.3"},
    {":", 5.5, "D2.75 0.6D2.75 8.6"},
    {";", 5.5, "M3.2 0.8L2 -2.6D2.9 8.6"},
    {"<", 12, "M10.3 12L1.7 7L10.3 2"},
    {"=", 12, "M1.5 9.2L10.5 9.2M1.5 4.8L10.5 4.8"},
    {">", 12, "M1.7 12L10.3 7L1.7 2"},
    {"?", 10, "E4.9 10.5 3.6 3.5 165 -50C5.2 6.2 4.9 5.6 4.9 4.2D4.9 0.6"},
    {"@", 19, "E9.2 5.6 3.5 4 0 360M12.7 9.4L12.7 4.2C12.7 0.8 17.3 1 17.3 6.2e9.3 5.6 8 8.4 0 300"},
    {"A", 13, "M1 0L6.5 14L12 0M3 5L10 5"},
    {"B", 13, "M2 7.5L7 7.5M2 0L2 14L7 14e7 10.75 3.5 3.25 90 -90M7 7.5e7.2 3.75 4.1 3.75 90 -90L2 0"},
    {"C", 14, "E7.6 7 5.8 7 48 312"},
    {"D", 14, "M2 0L2 14L6 14e6 7 6.3 7 90 -90L2 0"},
    {"E", 12, "M10.5 14L2 14L2 0L10.5 0M2 7.3L9.5 7.3"},
    {"F", 11.5, "M10.5 14L2 14L2 0M2 7L9.5 7"},
    {"G", 15, "E7.6 7 5.8 7 48 322L12.2 6.6L8.2 6.6"},
    {"H", 14.5, "M2 0L2 14M12.5 0L12.5 14M2 7.3L12.5 7.3"},
    {"I", 5.5, "M2.75 0L2.75 14"},
    {"J", 10, "M8 14L8 4e4.75 4 3.25 4 0 -155"},
    {"K", 13, "M2 0L2 14M11.5 14L2 4.8M5.2 8L12 0"},
    {"L", 11, "M2 14L2 0L10 0"},
    {"M", 16.5, "M2 0L2 14L8.25 1.5L14.5 14L14.5 0"},
    {"N", 14.5, "M2 0L2 14L12.5 0L12.5 14"},
    {"O", 15.5, "E7.75 7 6 7 0 360"},
    {"P", 12.5, "M2 0L2 14L7 14e7 10.2 4 3.8 90 -90L2 6.4"},
    {"Q", 15.5, "E7.75 7 6 7 0 360M9 3.5L13.5 -0.8"},
    {"R", 13.5, "M2 0L2 14L7 14e7 10.3 4 3.7 90 -90L2 6.6M7.3 6.6L12 0"},
    {"S", 13, "E6.4 10.5 4.2 3.5 35 270e6.4 3.5 4.7 3.5 90 -150"},
    {"T", 12, "M1 14L11 14M6 14L6 0"},
    {"U", 14, "M2 14L2 5e7 5 5 5 180 360L12 14"},
    {"V", 13, "M1 14L6.5 0L12 14"},
    {"W", 18.5, "M1 14L5 0L9.25 13L13.5 0L17.5 14"},
    {"X", 13, "M1.5 14L11.5 0M11.5 14L1.5 0"},
    {"Y", 12.5, "M1 14L6.25 6.6L11.5 14M6.25 6.6L6.25 0"},
    {"Z", 12.5, "M1.5 14L11 14L1.5 0L11.3 0"},
    {"[", 6.5, "M5.2 15.5L2.2 15.5L2.2 -3.5L5.2 -3.5"},
    {"\\", 8, "M0.8 15L7.2 -1.5"},
    {"]", 6.5, "M1.3 15.5L4.3 15.5L4.3 -3.5L1.3 -3.5"},
    {"^", 10, "M1.5 8L5 14L8.5 8"},
    {"_", 10, "M0.3 -2.5L9.7 -2.5"},
    {"`", 6, "M1.5 14.5L4 11.5"},
    {"a", 11, "M9 0L9 6.6e5.5 6.6 3.5 3.4 0 145M9 5.8L5 5.8e5 2.9 3.3 2.9 90 270C7 0 8.5 1.4 9 3"},
    {"b", 11.7, "M2 14L2 0E6 5 4 5 0 360"},
    {"c", 10.4, "E5.8 5 4 5 48 312"},
    {"d", 11.7, "M9.7 14L9.7 0E5.7 5 4 5 0 360"},
    {"e", 11.3, "M1.8 5.2L9.8 5.2e5.8 5 4 5 3 312"},
    {"f", 6.8, "M2.8 0L2.8 11e5.4 11 2.6 3 180 75M0.7 10L5.9 10"},
    {"g", 11.7, "E5.7 5 4 5 0 360M9.7 10L9.7 -0.8e5.9 -0.8 3.8 3.3 0 -145"},
    {"h", 11.4, "M2 14L2 0M2 6e5.7 6 3.7 4 180 0L9.4 0"},
    {"i", 5, "M2.5 10L2.5 0D2.5 13.5"},
    {"j", 5, "M2.9 10L2.9 -1.6e0.7 -1.6 2.2 2.4 0 -90D2.9 13.5"},
    {"k", 10.5, "M2 14L2 0M9 10L2 3.6M4.6 6L9.6 0"},
    {"l", 5, "M2.5 14L2.5 0"},
    {"m", 16.8, "M2 10L2 0M2 6.6e5.2 6.6 3.2 3.4 180 0L8.4 0M8.4 6.6e11.6 6.6 3.2 3.4 180 0L14.8 0"},
    {"n", 11.4, "M2 10L2 0M2 6e5.7 6 3.7 4 180 0L9.4 0"},
    {"o", 11.5, "E5.75 5 4.1 5 0 360"},
    {"p", 11.7, "M2 10L2 -4E6 5 4 5 0 360"},
    {"q", 11.7, "M9.7 10L9.7 -4E5.7 5 4 5 0 360"},
    {"r", 7.3, "M2 10L2 0M2 6e5.6 6 3.6 4 180 75"},
    {"s", 10, "E5 7.6 3.1 2.4 35 270e5 2.6 3.5 2.6 90 -150"},
    {"t", 6.9, "M3 13L3 2.6e5.4 2.6 2.4 2.6 180 295M0.9 10L6 10"},
    {"u", 11.4, "M2 10L2 4e5.7 4 3.7 4 180 360M9.4 10L9.4 0"},
    {"v", 10.4, "M1 10L5.2 0L9.4 10"},
    {"w", 15, "M1 10L4.4 0L7.5 9L10.6 0L14 10"},
    {"x", 10, "M1.2 10L8.8 0M8.8 10L1.2 0"},
    {"y", 10.3, "M1 10L5.2 0.2M9.4 10L4.4 -1.8C3.7 -3.6 2.9 -4.1 1.2 -3.9"},
    {"z", 10, "M1.4 10L8.5 10L1.4 0L8.7 0"},
    {"{", 7.5, "M6.2 15.5C2.6 15.5 5.4 6.6 1.4 6C5.4 5.4 2.6 -3.5 6.2 -3.5"},
    {"|", 5.5, "M2.75 15.5L2.75 -3.5"},
    {"}", 7.5, "M1.3 15.5C4.9 15.5 2.1 6.6 6.1 6C2.1 5.4 4.9 -3.5 1.3 -3.5"},
    {"~", 12, "M1.5 5.6C2.6 8.8 4.6 8.6 6 7.1C7.4 5.6 9.4 5.4 10.5 8.6"},
    {"·", 5.5, "D2.75 5.6"},
    {"–", 11, "M1 5.5L10 5.5"},
    {"—", 19, "M1 5.5L18 5.5"},
    {"…", 16.5, "D2.75 0.6D8.25 0.6D13.75 0.6"},
    {"×", 12, "M2.2 10.8L9.8 3.2M9.8 10.8L2.2 3.2"},
    {"θ", 11.5, "E5.75 7 3.8 7 0 360M1.95 7L9.55 7"},
    {"‖", 9, "M2.6 15.5L2.6 -3.5M6.4 15.5L6.4 -3.5"},
    {"°", 8, "E4 11.4 2.5 2.5 0 360"},
    {"±", 12, "M6 12.5L6 4.5M1.5 8.5L10.5 8.5M1.5 1.2L10.5 1.2"},
    {"→", 17, "M1.5 6L15.2 6M11 10L15.3 6L11 2"},
    {"←", 17, "M15.5 6L1.8 6M6 10L1.7 6L6 2"},
    {"−", 12, "M1.5 7L10.5 7"},
    {"≤", 12, "M10.3 13L1.7 8.5L10.3 4M1.7 0.8L10.3 0.8"},
    {"≥", 12, "M1.7 13L10.3 8.5L1.7 4M1.7 0.8L10.3 0.8"},
    {"≈", 12,
     "M1.5 7.8C2.6 11 4.6 10.8 6 9.3C7.4 7.8 9.4 7.6 10.5 10.8M1.5 2.8C2.6 6 4.6 5.8 6 4.3C7.4 2.8 9.4 2.6 10.5 5.8"},
    {"‘", 4.5, "M2.9 14L1.9 10.6"},
    {"’", 4.5, "M2.9 14L1.9 10.6"},
    {"“", 8, "M3 14L2 10.6M6 14L5 10.6"},
    {"”", 8, "M3 14L2 10.6M6 14L5 10.6"},
    {"▁", 10, "M0.8 -2L9.2 -2"},
    {"α", 12, "M10.4 10C9.4 3.4 7.8 0 5.2 0C0.6 0 0.6 10 5.2 10C7.8 10 9.2 6.5 10.8 0"},
    {"β", 11.5, "M2 -4L2 10.4e5.5 10.4 3.5 3.6 180 -80M5 7.2e5.6 3.6 4.1 3.6 90 -120L2 1.6"},
    {"γ", 10.5, "M1 9.6C3 10.6 4.6 8 5.2 1L5.2 -4M9.4 10L5.2 1"},
    {"ε", 9.6, "E5.2 7.5 3.2 2.5 40 270e5.2 2.6 3.5 2.6 90 325"},
    {"λ", 11, "M1.4 14C3.4 14.2 4 13 4.6 11.2L9.8 0M5.6 8.4L1.4 0"},
    {"μ", 11.4, "M2 10L2 -4M2 4e5.7 4 3.7 4 180 360M9.4 10L9.4 0"},
    {"π", 12, "M1 10L11 10M3.6 10L3.2 0M8.2 10L8.2 2.2C8.2 0.4 9 0 10.4 0.2"},
    {"σ", 12, "E5.8 5 4 5 90 450L11.2 10"},
    {"Δ", 13, "M1.2 0L6.5 14L11.8 0L1.2 0"},
    {"Σ", 12, "M10.6 14L1.8 14L7.2 7.2L1.8 0L10.8 0"},
};

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
    for (const GlyphSource & source : sources) {
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
