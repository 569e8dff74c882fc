#pragma once

#include <vector>

namespace buoy::figure {

// A character of the font as it is drawn by hand, in the units of font.h.
struct GlyphSource {
    const char * character; // UTF-8
    double       advance;
    // M x y: begin a stroke; L x y: a line to; C x1 y1 x2 y2 x y: a Bézier curve to; D x y: a dot.
    // E cx cy rx ry a b: a stroke along an ellipse from angle a to b in degrees; e: the same, joined to the stroke so far.
    const char * strokes;
};

const std::vector<GlyphSource> & glyph_sources();

} // namespace buoy::figure
