#pragma once

#include "buoy/figure.h"
#include "figure/scene.h"

#include <string>
#include <string_view>

namespace buoy::figure {

std::string to_svg(const Scene & scene, SvgTheme theme);

// CSS that makes SvgTheme::page dark wherever the selector `scope` holds.
std::string svg_dark_rules(const std::string & scope);

// Two decimals at most, without a locale.
std::string svg_number(double value);

// Text for XML's content and attributes; characters that XML forbids become U+FFFD.
std::string xml_escape(std::string_view text);

} // namespace buoy::figure
