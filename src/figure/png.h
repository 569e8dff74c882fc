#pragma once

#include "figure/color.h"
#include "figure/scene.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy::figure {

// A PNG file of pixels [height, width], 8 bits a channel, without alpha where all are opaque. dpi 0: not said.
std::string encode_png(const std::vector<Color> & pixels, size_t width, size_t height, double dpi = 0);

std::string to_png(const Scene & scene, Theme theme, double scale);

} // namespace buoy::figure
