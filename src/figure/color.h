#pragma once

#include "buoy/figure.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace buoy::figure {

struct Color {
    uint8_t r = 0, g = 0, b = 0, a = 255;

    bool operator==(const Color & o) const { return r == o.r && g == o.g && b == o.b && a == o.a; }
};

std::string hex(const Color & color);       // #rrggbb
double      luminance(const Color & color); // relative luminance of WCAG, 0 to 1

// Dark purple over blue and green to yellow, its lightness rising evenly, so it reads in grey and with any colour vision.
Color sequential_color(double t); // t in [0, 1]
// Blue over a light neutral to brown; 0.5 is the middle.
Color diverging_color(double t);

// What a part of a picture is for; the theme decides how it looks. `fixed` is the same in both.
enum class Role : uint8_t { none, fixed, background, text, muted, grid, absent, series };

constexpr size_t series_color_count = 8;

struct Paint {
    Role   role  = Role::none;
    size_t index = 0; // of a series, any number
    Color  color;     // of Role::fixed
    double alpha = 1;

    Paint() = default;
    Paint(Role role_, double alpha_ = 1) : role(role_), alpha(alpha_) {}
    Paint(const Color & color_, double alpha_ = 1) : role(Role::fixed), color(color_), alpha(alpha_) {}

    static Paint of_series(size_t index, double alpha = 1);
};

Color resolve(const Paint & paint, Theme theme);

} // namespace buoy::figure
