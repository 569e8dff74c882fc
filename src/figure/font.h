#pragma once

#include "figure/scene.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace buoy::figure {

// A font of strokes, for pictures without a font of the system. Units of 1/20 of the size, y upwards from the base line.

struct Glyph {
    double                          advance = 0;
    std::vector<std::vector<Point>> strokes;
};

constexpr double font_units   = 20;
constexpr double stroke_plain = 1.55; // widths of the pen
constexpr double stroke_bold  = 2.4;

// A letter with marks that the font lacks is drawn without them, anything else that it lacks as a box.
const Glyph & glyph(uint32_t code);

// The next character of well-formed UTF-8, taken off the text.
uint32_t next_character(std::string_view & text);

} // namespace buoy::figure
