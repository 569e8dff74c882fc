#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace buoy::figure {

// The metrics are those of our stroke font, which is a little wider than the usual sans-serif fonts of a browser: what fits here
// fits there.
double text_width(std::string_view text, double size, bool bold = false);

constexpr double text_ascent  = 0.75; // of the size, above the base line
constexpr double text_descent = 0.22;

// One line of printable, well-formed UTF-8: \n and \t are spelled out, other control characters and stray bytes are \xNN.
std::string clean_text(std::string_view text);

// A token's piece as a label: clean, a space at either end as ·.
std::string token_label(std::string_view piece);

// Clean, and cut with … where it is wider.
std::string cut_text(std::string_view text, double size, double width, bool bold = false);

// Clean, broken between words (or within one that is too wide); the last line is cut if there are more.
std::vector<std::string> wrap_text(std::string_view text, double size, double width, size_t lines_max,
                                   bool bold = false);

} // namespace buoy::figure
