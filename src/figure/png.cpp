#include "figure/png.h"

#include "buoy/message.h"
#include "figure/raster.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace buoy::figure {

namespace {

void append_u32(std::string & out, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        out += static_cast<char>(value >> shift & 0xff);
    }
}

void append_chunk(std::string & out, const std::string & type, const std::string & data) {
    append_u32(out, static_cast<uint32_t>(data.size()));
    const std::string body = type + data;
    out += body;
    append_u32(out, static_cast<uint32_t>(
                        crc32(0, reinterpret_cast<const Bytef *>(body.data()), static_cast<uInt>(body.size()))));
}

// The filter of the three simplest (none, sub, up) whose bytes are smallest in sum.
void append_filtered(std::string & out, const uint8_t * row, const uint8_t * above, size_t n_bytes, size_t n_channels) {
    const auto filtered = [&](size_t filter, size_t i) {
        const int before = filter == 1 && i >= n_channels ? row[i - n_channels] : filter == 2 && above ? above[i] : 0;
        return static_cast<int8_t>(row[i] - before);
    };
    std::array<uint64_t, 3> cost = {};
    for (size_t filter = 0; filter < cost.size(); filter++) {
        for (size_t i = 0; i < n_bytes; i++) {
            cost[filter] += static_cast<uint64_t>(std::abs(filtered(filter, i)));
        }
    }
    const auto best = static_cast<size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
    out += static_cast<char>(best);
    for (size_t i = 0; i < n_bytes; i++) {
        out += static_cast<char>(filtered(best, i));
    }
}

} // namespace

std::string encode_png(const std::vector<Color> & pixels, size_t width, size_t height, double dpi) {
    const bool   opaque     = std::all_of(pixels.begin(), pixels.end(), [](const Color & c) { return c.a == 255; });
    const size_t n_channels = opaque ? 3 : 4;

    std::vector<uint8_t> bytes;
    bytes.reserve(pixels.size() * n_channels);
    for (const Color & c : pixels) {
        bytes.insert(bytes.end(), {c.r, c.g, c.b});
        if (!opaque) {
            bytes.push_back(c.a);
        }
    }
    const size_t row_size = width * n_channels;
    std::string  raw;
    raw.reserve((row_size + 1) * height);
    for (size_t y = 0; y < height; y++) {
        const uint8_t * row = bytes.data() + y * row_size;
        append_filtered(raw, row, y > 0 ? row - row_size : nullptr, row_size, n_channels);
    }
    uLongf      size = compressBound(static_cast<uLong>(raw.size()));
    std::string packed(size, '\0');
    const int   status = compress2(reinterpret_cast<Bytef *>(packed.data()), &size,
                                   reinterpret_cast<const Bytef *>(raw.data()), static_cast<uLong>(raw.size()), 6);
    if (status != Z_OK) {
        fail_runtime("cannot compress a picture of ", width, " x ", height, " pixels: zlib says ", status);
    }
    packed.resize(size);

    std::string out = "\x89PNG\r\n\x1a\n";
    std::string header;
    append_u32(header, static_cast<uint32_t>(width));
    append_u32(header, static_cast<uint32_t>(height));
    header += {8, static_cast<char>(opaque ? 2 : 6), 0, 0, 0};
    append_chunk(out, "IHDR", header);
    if (dpi > 0) {
        std::string density;
        append_u32(density, static_cast<uint32_t>(std::lround(dpi / 0.0254)));
        append_u32(density, static_cast<uint32_t>(std::lround(dpi / 0.0254)));
        append_chunk(out, "pHYs", density + '\x01');
    }
    append_chunk(out, "IDAT", packed);
    append_chunk(out, "IEND", "");
    return out;
}

std::string to_png(const Scene & scene, Theme theme, double scale) {
    constexpr double pixels_max = 1e8;
    if (!(scale >= 0.5 && scale <= 8)) {
        fail("scale of a PNG: expected 0.5 to 8, got ", scale);
    }
    const double width  = std::ceil(scene.width * scale);
    const double height = std::ceil(scene.height * scale);
    if (!(width >= 1 && height >= 1 && width * height <= pixels_max)) {
        fail("PNG of ", width, " x ", height, " pixels: expected 1 to ", pixels_max, " in all");
    }
    Raster raster(static_cast<size_t>(width), static_cast<size_t>(height), scale, theme);
    raster.draw(scene);
    return encode_png(raster.pixels(), raster.width(), raster.height(), 96 * scale);
}

} // namespace buoy::figure
