#pragma once

#include "figure/color.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy::test {

struct Pixels {
    size_t                     width = 0, height = 0;
    std::vector<figure::Color> colors; // [height, width]

    const figure::Color & at(size_t x, size_t y) const { return colors.at(y * width + x); }
};

// Decodes an 8-bit RGB or RGBA PNG, and throws where its structure, a checksum or its size is wrong.
Pixels decode_png(const std::string & file);

// What keeps a text from being well-formed XML of one root element (tags, attributes, entities, characters), "" if nothing does.
std::string xml_fault(const std::string & xml);

} // namespace buoy::test
