// Texts while they are written, as files: GIF read by a decoder of its own, asciicast as JSON, SVG by its parts.

#include "buoy/error.h"
#include "buoy/screencast.h"
#include "figure/gif.h"
#include "support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <sstream>

using namespace buoy::figure;
using buoy::test::contains;

namespace {

using State = TokenState;

// The GIF89a specification, read from the reader's side.
class GifReader {
public:
    struct Frame {
        std::vector<uint8_t> pixels; // the whole picture after it
        int                  centiseconds = 0;
        size_t               area         = 0; // pixels stored
    };

    explicit GifReader(const std::string & bytes) : bytes_(bytes) {
        REQUIRE(bytes.substr(0, 6) == "GIF89a");
        at_           = 6;
        width         = u16();
        height        = u16();
        const int set = u8();
        REQUIRE((set & 0x80) != 0);
        at_ += 2;
        n_colors = size_t{2} << (set & 7);
        at_ += 3 * n_colors;
        std::vector<uint8_t> screen(width * height, 0);
        for (int kind = u8(); kind != ';'; kind = u8()) {
            kind == 0x21 ? read_extension() : read_image(screen);
        }
        CHECK(at_ == bytes.size());
    }

    size_t             width = 0, height = 0, n_colors = 0;
    bool               repeats = false;
    std::vector<Frame> frames;

private:
    int u8() {
        REQUIRE(at_ < bytes_.size());
        return static_cast<uint8_t>(bytes_[at_++]);
    }
    size_t u16() {
        const int low = u8();
        return static_cast<size_t>(low | u8() << 8);
    }

    std::string blocks() {
        std::string out;
        for (int n = u8(); n != 0; n = u8()) {
            out += bytes_.substr(at_, static_cast<size_t>(n));
            at_ += static_cast<size_t>(n);
        }
        return out;
    }

    void read_extension() {
        const int         label = u8();
        const std::string data  = blocks();
        if (label == 0xf9) {
            delay_ = static_cast<uint8_t>(data[1]) | static_cast<uint8_t>(data[2]) << 8;
        } else {
            repeats = data.substr(0, 11) == "NETSCAPE2.0";
        }
    }

    void read_image(std::vector<uint8_t> & screen) {
        const size_t x = u16(), y = u16(), w = u16(), h = u16();
        REQUIRE(u8() == 0);
        REQUIRE(x + w <= width);
        REQUIRE(y + h <= height);
        const int                  bits    = u8();
        const std::vector<uint8_t> indices = unpack(blocks(), bits);
        REQUIRE(indices.size() == w * h);
        for (size_t i = 0; i < indices.size(); i++) {
            screen[(y + i / w) * width + x + i % w] = indices[i];
        }
        frames.push_back({screen, delay_, w * h});
    }

    static std::vector<uint8_t> unpack(const std::string & data, int bits) {
        const int                clear = 1 << bits;
        std::vector<std::string> strings;
        std::vector<uint8_t>     out;
        std::string              last;
        int                      size = bits + 1;
        size_t                   bit  = 0;
        while (true) {
            int code = 0;
            for (int i = 0; i < size; i++, bit++) {
                REQUIRE(bit / 8 < data.size());
                code |= (static_cast<uint8_t>(data[bit / 8]) >> bit % 8 & 1) << i;
            }
            if (code == clear) {
                strings.clear();
                for (int i = 0; i < clear + 2; i++) {
                    strings.emplace_back(1, static_cast<char>(i));
                }
                size = bits + 1;
                last.clear();
                continue;
            }
            if (code == clear + 1) {
                return out;
            }
            REQUIRE(code <= static_cast<int>(strings.size()));
            const bool known = code < static_cast<int>(strings.size());
            REQUIRE((known || !last.empty()));
            const std::string now = known ? strings[static_cast<size_t>(code)] : last + last[0];
            if (!last.empty() && strings.size() < 4096) {
                strings.push_back(last + now[0]);
                size += static_cast<int>(strings.size()) == 1 << size && size < 12 ? 1 : 0;
            }
            out.insert(out.end(), now.begin(), now.end());
            last = now;
        }
    }

    const std::string & bytes_;
    size_t              at_    = 0;
    int                 delay_ = 0;
};

std::vector<uint8_t> noise(size_t n, int n_colors, unsigned seed) {
    std::mt19937         random(seed);
    std::vector<uint8_t> out(n);
    for (uint8_t & index : out) {
        index = static_cast<uint8_t>(random() % static_cast<unsigned>(n_colors));
    }
    return out;
}

Screencast story() {
    Screencast cast;
    cast.command      = "program -p \"<a & b>\"";
    cast.columns      = 30;
    cast.milliseconds = 100;
    cast.frames       = {
              {{{"", State::masked}, {"", State::masked}, {"", State::masked}}, "before"},
              {{{"", State::masked}, {" two", State::fresh}, {"", State::masked}}, "step 1"},
              {{{"one", State::fresh}, {" two", State::settled}, {" 日<&>", State::fresh}}, "step 2"},
    };
    return cast;
}

std::vector<std::string> texts_of(const std::vector<ScreenLine> & lines) {
    std::vector<std::string> out;
    for (const ScreenLine & line : lines) {
        out.emplace_back();
        for (const ScreenSpan & span : line) {
            out.back() += span.text;
        }
    }
    return out;
}

} // namespace

TEST_CASE("screencast: a GIF gives back the pixels it was made of") {
    for (const int n_colors : {2, 3, 4, 61, 256}) {
        CAPTURE(n_colors);
        const size_t width = 97, height = 83; // noise: the table of codes is full several times
        GifWriter    gif(width, height, std::vector<Color>(static_cast<size_t>(n_colors)));
        const auto   first  = noise(width * height, n_colors, 1);
        auto         second = first;
        second[10 * width + 20] ^= 1;
        second[12 * width + 25] ^= 1;
        const std::vector<uint8_t> third(width * height, 1);
        gif.add(first, 100);
        gif.add(second, 150);
        gif.add(second, 50); // the same once more
        gif.add(third, 3);
        const std::string bytes = gif.finish();
        const GifReader   read(bytes);
        CHECK(read.width == width);
        CHECK(read.height == height);
        CHECK(read.repeats);
        REQUIRE(read.frames.size() == 3);
        CHECK(read.frames[0].pixels == first);
        CHECK(read.frames[1].pixels == second);
        CHECK(read.frames[2].pixels == third);
        CHECK(read.frames[1].area == 3 * 6);
        CHECK(read.frames[0].centiseconds == 10);
        CHECK(read.frames[1].centiseconds == 20);
        CHECK(read.frames[2].centiseconds == 2); // browsers take less for 100 ms
    }
    for (size_t n = 1; n < 1200; n += 7) { // wherever the last code falls
        GifWriter  gif(n, 1, std::vector<Color>(4));
        const auto pixels = noise(n, 4, static_cast<unsigned>(n));
        gif.add(pixels, 100);
        const std::string bytes = gif.finish();
        CHECK(GifReader(bytes).frames[0].pixels == pixels);
    }
    CHECK_THROWS_AS(GifWriter(0, 1, std::vector<Color>(2)), buoy::Error);
    CHECK_THROWS_AS(GifWriter(1, 65536, std::vector<Color>(2)), buoy::Error);
}

TEST_CASE("screencast: a frame of the GIF for each frame, the last one stays") {
    const std::string bytes = render_screencast(story(), ScreencastFormat::gif);
    const GifReader   read(bytes);
    REQUIRE(read.frames.size() == 3);
    CHECK(read.frames[0].centiseconds == 10);
    CHECK(read.frames[2].centiseconds == 310);
    CHECK(read.width == 2 * 16 + 288); // 30 cells of 9.6
    CHECK(read.frames[1].area < read.width * read.height / 2);
    CHECK(bytes == render_screencast(story(), ScreencastFormat::gif));
}

TEST_CASE("screencast: an asciicast is a header and events that a terminal plays") {
    std::istringstream in(render_screencast(story(), ScreencastFormat::cast));
    std::string        line;
    std::getline(in, line);
    const auto header = nlohmann::json::parse(line);
    CHECK(header["version"] == 2);
    CHECK(header["width"] == 30);
    CHECK(header["height"].get<int>() >= 5);
    CHECK(header["command"] == "program -p \"<a & b>\"");
    std::vector<nlohmann::json> events;
    while (std::getline(in, line)) {
        events.push_back(nlohmann::json::parse(line));
        REQUIRE(events.back().size() == 3);
        CHECK(events.back()[1] == "o");
    }
    REQUIRE(events.size() == 1 + 3 + 1);
    CHECK(contains(events[0][2].get<std::string>(), "$ program -p \"<a & b>\"\r\n"));
    CHECK(events[1][0] == 0.0);
    CHECK(events[2][0] == 0.1);
    CHECK(events[4][0] == doctest::Approx(0.3));
    CHECK(events[2][2] == "\r\033[1A\033[J\033[2m░\033[0m\033[1;32m two\033[0m\033[2m░\033[0m\r\n\033[2mstep 1\033[0m");
}

TEST_CASE("screencast: an SVG has the command and every frame, visible one after the other") {
    const std::string svg = render_screencast(story(), ScreencastFormat::svg);
    CHECK(contains(svg, "<title>program -p &quot;&lt;a &amp; b&gt;&quot;</title>"));
    CHECK(contains(svg, ">$ program -p &quot;&lt;a &amp; b&gt;&quot;</text>"));
    CHECK(contains(svg, "<g class=\"frame\" style=\"animation-delay:0ms\">"));
    CHECK(contains(svg, "<g class=\"frame\" style=\"animation-delay:100ms\">"));
    CHECK(contains(svg, "<g class=\"last\">"));
    CHECK(contains(svg, "animation:frame 3300ms"));
    CHECK(contains(svg, "class=\"fresh\" x=\"35.2\"")); // behind a mask and a space
    CHECK(contains(svg, "textLength=\"28.8\">two</text>"));
    CHECK(contains(svg, ">日&lt;&amp;&gt;</text>"));
    CHECK(contains(svg, "prefers-reduced-motion"));
}

TEST_CASE("screencast: lines break at words in pictures, anywhere on a terminal") {
    using Lines                           = std::vector<std::string>;
    const std::vector<ScreenToken> tokens = {{"some words", State::settled}, {" here", State::fresh}};
    CHECK(texts_of(screen_lines(tokens, 8)) == Lines{"some wor", "ds here"});
    CHECK(texts_of(screen_lines(tokens, 8, LineBreak::at_words)) == Lines{"some ", "words ", "here"});
    CHECK(texts_of(screen_lines(tokens, 10, LineBreak::at_words)) == Lines{"some words", "here"});
    CHECK(texts_of(screen_lines({{"incomprehensible", State::settled}}, 8, LineBreak::at_words)) ==
          Lines{"incompre", "hensible"});
    const std::vector<ScreenToken> masks(10, {"", State::masked});
    CHECK(texts_of(screen_lines(masks, 8, LineBreak::at_words)) == Lines{"░░░░░░░░", "░░"});
    CHECK(texts_of(screen_lines({{"a", State::settled}, {"", State::masked}, {"bcd", State::settled}}, 4,
                                LineBreak::at_words)) == Lines{"a░", "bcd"});
}

TEST_CASE("screencast: the format is the end of the name") {
    CHECK(screencast_format("a.gif") == ScreencastFormat::gif);
    CHECK(screencast_format("dir.gif/b.svg") == ScreencastFormat::svg);
    CHECK(screencast_format("c.cast") == ScreencastFormat::cast);
    for (const char * name : {"a.png", "gif", ".gif", "a.gif.txt", ""}) {
        CHECK_THROWS_AS(screencast_format(name), buoy::Error);
    }
    CHECK_THROWS_AS(render_screencast({}, ScreencastFormat::gif), buoy::Error);
}
