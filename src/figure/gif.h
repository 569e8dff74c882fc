#pragma once

#include "figure/color.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace buoy::figure {

// An animated GIF (89a) that repeats for ever. Pixels are indices into a palette of 2 to 256 colours.
class GifWriter {
public:
    GifWriter(size_t width, size_t height, const std::vector<Color> & palette);

    // [height, width]. Only what differs from the frame before is stored; one that is the same makes that last longer.
    void add(const std::vector<uint8_t> & pixels, int milliseconds);

    std::string finish(); // the file

private:
    struct Area {
        size_t x = 0, y = 0, w = 0, h = 0;
    };

    Area changed(const std::vector<uint8_t> & pixels) const;
    void write_frame(); // the one whose time is now known

    size_t               width_, height_;
    int                  index_bits_ = 2;
    std::string          out_;
    std::vector<uint8_t> shown_;
    std::string          image_; // of the last frame, not written yet
    int                  milliseconds_ = 0;
};

} // namespace buoy::figure
