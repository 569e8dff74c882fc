#include "figure/gif.h"

#include "buoy/message.h"

#include <algorithm>

namespace buoy::figure {

namespace {

constexpr size_t side_max = 65535;

void append_u16(std::string & out, size_t value) {
    out += static_cast<char>(value & 0xff);
    out += static_cast<char>(value >> 8 & 0xff);
}

// Codes of growing width, lowest bits first, in blocks of at most 255 bytes.
class CodeStream {
public:
    void put(uint32_t code, int n_bits) {
        bits_ |= code << n_held_;
        n_held_ += n_bits;
        for (; n_held_ >= 8; n_held_ -= 8, bits_ >>= 8) {
            bytes_ += static_cast<char>(bits_ & 0xff);
        }
    }

    std::string blocks() {
        if (n_held_ > 0) {
            bytes_ += static_cast<char>(bits_ & 0xff);
        }
        std::string out;
        for (size_t at = 0; at < bytes_.size(); at += 255) {
            const size_t n = std::min<size_t>(255, bytes_.size() - at);
            out += static_cast<char>(n) + bytes_.substr(at, n);
        }
        return out + '\0';
    }

private:
    uint32_t    bits_   = 0;
    int         n_held_ = 0;
    std::string bytes_;
};

// Variable-length LZW as GIF89a has it (appendix F): strings of indices get codes as they are met, up to 12 bits.
class Lzw {
public:
    explicit Lzw(int index_bits) : index_bits_(index_bits), clear_(1u << index_bits) {
        restart();
        stream_.put(clear_, n_bits_);
    }

    void put(uint8_t index) {
        if (prefix_ == none) {
            prefix_ = index;
            return;
        }
        uint16_t & code = codes_[prefix_ << index_bits_ | index];
        if (code != 0) {
            prefix_ = code;
            return;
        }
        stream_.put(prefix_, n_bits_);
        code = static_cast<uint16_t>(next_);
        widen();
        next_++;
        if (next_ == codes_max) {
            stream_.put(clear_, n_bits_);
            restart();
        }
        prefix_ = index;
    }

    std::string finish() {
        stream_.put(prefix_, n_bits_);
        widen(); // a reader knows one string more by now
        stream_.put(clear_ + 1, n_bits_);
        return static_cast<char>(index_bits_) + stream_.blocks();
    }

private:
    static constexpr uint32_t codes_max = 4096;
    static constexpr uint32_t none      = codes_max;

    void restart() {
        n_bits_ = index_bits_ + 1;
        next_   = clear_ + 2;
        codes_.assign(size_t{codes_max} << index_bits_, 0);
    }

    void widen() { n_bits_ += next_ == 1u << n_bits_ ? 1 : 0; }

    int                   index_bits_;
    uint32_t              clear_;
    int                   n_bits_ = 0;
    uint32_t              next_   = 0; // code of the next string
    uint32_t              prefix_ = none;
    std::vector<uint16_t> codes_; // [prefix, index] to their string's; 0: none yet
    CodeStream            stream_;
};

} // namespace

GifWriter::GifWriter(size_t width, size_t height, const std::vector<Color> & palette) : width_(width), height_(height) {
    if (width == 0 || height == 0 || width > side_max || height > side_max) {
        fail("GIF of ", width, " x ", height, " pixels: expected 1 to ", side_max, " on either side");
    }
    while (1u << index_bits_ < palette.size()) {
        index_bits_++;
    }
    out_ = "GIF89a";
    append_u16(out_, width);
    append_u16(out_, height);
    out_ += {static_cast<char>(0xf0 | (index_bits_ - 1)), 0, 0};
    for (size_t i = 0; i < size_t{1} << index_bits_; i++) {
        const Color color = i < palette.size() ? palette[i] : Color{};
        out_ += {static_cast<char>(color.r), static_cast<char>(color.g), static_cast<char>(color.b)};
    }
    out_ += "\x21\xff\x0bNETSCAPE2.0";
    out_ += {3, 1, 0, 0, 0}; // repeat without end
}

GifWriter::Area GifWriter::changed(const std::vector<uint8_t> & pixels) const {
    if (shown_.empty()) {
        return {0, 0, width_, height_};
    }
    size_t left = width_, right = 0, top = height_, bottom = 0;
    for (size_t y = 0; y < height_; y++) {
        for (size_t x = 0; x < width_; x++) {
            if (pixels[y * width_ + x] != shown_[y * width_ + x]) {
                left   = std::min(left, x);
                right  = std::max(right, x + 1);
                top    = std::min(top, y);
                bottom = y + 1;
            }
        }
    }
    return right > left ? Area{left, top, right - left, bottom - top} : Area{};
}

void GifWriter::add(const std::vector<uint8_t> & pixels, int milliseconds) {
    const Area area = changed(pixels);
    if (area.w > 0) {
        write_frame();
        image_ = ",";
        for (const size_t value : {area.x, area.y, area.w, area.h}) {
            append_u16(image_, value);
        }
        Lzw lzw(index_bits_);
        for (size_t y = area.y; y < area.y + area.h; y++) {
            for (size_t x = area.x; x < area.x + area.w; x++) {
                lzw.put(pixels[y * width_ + x]);
            }
        }
        image_ += '\0' + lzw.finish();
        shown_ = pixels;
    }
    milliseconds_ += milliseconds;
}

void GifWriter::write_frame() {
    if (image_.empty()) {
        return;
    }
    out_ += {0x21, static_cast<char>(0xf9), 4, 4}; // a control block: the frame stays below the next one
    append_u16(out_, static_cast<size_t>(std::clamp((milliseconds_ + 5) / 10, 2, 65535)));
    out_ += std::string(2, '\0') + image_;
    milliseconds_ = 0;
}

std::string GifWriter::finish() {
    write_frame();
    return out_ + ";";
}

} // namespace buoy::figure
