#include "figure/color.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace buoy::figure {

namespace {

constexpr double pi = 3.14159265358979323846;

double clamp_unit(double t) { return t >= 0 ? std::min(t, 1.0) : 0.0; } // NaN is 0

uint8_t to_byte(double linear) {
    const double l = clamp_unit(linear);
    const double s = l <= 0.0031308 ? 12.92 * l : 1.055 * std::pow(l, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(std::lround(s * 255));
}

// OKLab in polar form (Ottosson 2020): lightness 0 to 1, chroma, hue in degrees.
Color from_oklch(double lightness, double chroma, double hue) {
    const double a = chroma * std::cos(hue * pi / 180);
    const double b = chroma * std::sin(hue * pi / 180);
    const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    return {to_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
            to_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
            to_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

struct Themed {
    Color light, dark;
};

// Told apart with any colour vision, and in both themes at 3:1 or more against the background.
constexpr std::array<Themed, series_color_count> series_colors = {{
    {{0x0a, 0x66, 0xa8}, {0x5c, 0xb0, 0xee}}, // blue
    {{0xcc, 0x52, 0x0c}, {0xf0, 0x8a, 0x4b}}, // vermilion
    {{0x0b, 0x86, 0x62}, {0x3c, 0xc4, 0x9a}}, // green
    {{0xad, 0x4f, 0x90}, {0xe0, 0x92, 0xc6}}, // purple
    {{0x9a, 0x74, 0x00}, {0xe3, 0xbd, 0x3d}}, // ochre
    {{0x2f, 0x90, 0xb8}, {0x94, 0xd8, 0xf6}}, // sky
    {{0x7a, 0x2e, 0x1f}, {0xd9, 0xa0, 0x8c}}, // brown
    {{0x4a, 0x4f, 0x57}, {0xc4, 0xc9, 0xd0}}, // grey
}};

Themed role_colors(Role role) {
    switch (role) {
        case Role::text: return {{0x1d, 0x23, 0x2b}, {0xe8, 0xea, 0xee}};
        case Role::muted: return {{0x55, 0x5e, 0x6a}, {0xa9, 0xb2, 0xbe}};
        case Role::grid: return {{0xe1, 0xe4, 0xe8}, {0x33, 0x39, 0x42}};
        case Role::absent: return {{0xd3, 0xd6, 0xda}, {0x3d, 0x43, 0x4c}};
        default: return {{0xff, 0xff, 0xff}, {0x16, 0x1a, 0x20}};
    }
}

} // namespace

std::string hex(const Color & color) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string           out      = "#";
    for (const uint8_t c : {color.r, color.g, color.b}) {
        out += {digits[c >> 4], digits[c & 15]};
    }
    return out;
}

double luminance(const Color & color) {
    const auto linear = [](uint8_t c) {
        const double s = c / 255.0;
        return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
}

Color sequential_color(double t) {
    t = clamp_unit(t);
    // the chroma that sRGB can show is smallest in the blue-green middle
    const double chroma = 0.096 + 0.22 * std::pow(t - 0.43, 2);
    return from_oklch(0.27 + 0.65 * t, chroma, 305 - 200 * t);
}

Color diverging_color(double t) {
    const double side = 2 * clamp_unit(t) - 1;
    const double away = std::abs(side);
    const double hue  = side < 0 ? 250 : 52;
    return from_oklch(0.965 - 0.545 * away, 0.12 * std::sin(0.66 * pi * away), hue);
}

Paint Paint::of_series(size_t index, double alpha) {
    Paint paint(Role::series, alpha);
    paint.index = index;
    return paint;
}

Color resolve(const Paint & paint, Theme theme) {
    if (paint.role == Role::fixed) {
        return paint.color;
    }
    const Themed themed =
        paint.role == Role::series ? series_colors[paint.index % series_color_count] : role_colors(paint.role);
    return theme == Theme::light ? themed.light : themed.dark;
}

} // namespace buoy::figure
