#include "figure/axis.h"
#include "figure/color.h"
#include "figure/font.h"
#include "figure/png.h"
#include "figure/raster.h"
#include "figure/scene.h"
#include "figure/svg.h"
#include "figure/text.h"
#include "support/figure-files.h"
#include "support/paths.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

using namespace buoy;
using namespace buoy::figure;

namespace {

using Labels = std::vector<std::string>;

// WCAG's ratio, 1 to 21.
double contrast(const Color & first, const Color & second) {
    const auto [darker, lighter] = std::minmax({luminance(first) + 0.05, luminance(second) + 0.05});
    return lighter / darker;
}

Path path_of(const std::vector<Point> & line, const Paint & fill, const Stroke & stroke) {
    Path path;
    path.lines  = {line};
    path.fill   = fill;
    path.stroke = stroke;
    return path;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

} // namespace

TEST_CASE("ticks of ranges worked out by hand") {
    CHECK(nice_ticks({0, 10}, 6).labels == Labels{"0", "2", "4", "6", "8", "10"});
    CHECK(nice_ticks({0, 10}, 11).labels.size() == 11);
    CHECK(nice_ticks({0, 1}, 6).labels == Labels{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"});
    CHECK(nice_ticks({0.3, 0.95}, 4).labels == Labels{"0.4", "0.6", "0.8"});
    CHECK(nice_ticks({-3, 4}, 4).labels == Labels{"−2", "0", "2", "4"});
    CHECK(nice_ticks({0, 31}, 8).labels == Labels{"0", "5", "10", "15", "20", "25", "30"});
    CHECK(nice_ticks({0, 1}, 3, {true, false}).labels == Labels{"0%", "50%", "100%"});
    CHECK(nice_ticks({0, 0.01}, 3, {true, false}).labels == Labels{"0.0%", "0.5%", "1.0%"});
    CHECK(nice_ticks({0, 3e7}, 4).labels == Labels{"0", "1e7", "2e7", "3e7"});
    CHECK(nice_ticks({0, 2.5e6}, 6).labels == Labels{"0", "5e5", "1e6", "1.5e6", "2e6", "2.5e6"});
    CHECK(nice_ticks({0, 2e-6}, 3).labels == Labels{"0", "1e−6", "2e−6"});
    CHECK(nice_ticks({0, 2}, 11, {false, true}).labels == Labels{"0", "1", "2"});
    CHECK(nice_ticks({0, 0.3}, 4).values == std::vector<double>{0, 0.1, 0.2, 0.3}); // not 0.30000000000000004
    CHECK(nice_ticks({}, 3).labels == Labels{"0.0", "0.5", "1.0"});                 // no data
    CHECK(log_ticks({1e-3, 1}, 8).labels == Labels{"0.001", "0.01", "0.1", "1"});
    CHECK(log_ticks({0.1, 1}, 8).labels == Labels{"0.1", "0.2", "0.5", "1"});
    CHECK(log_ticks({1e-6, 1e-4}, 4).labels == Labels{"1e−6", "1e−5", "1e−4"});
    CHECK(log_ticks({1e-8, 1}, 3).labels.size() <= 3);
}

TEST_CASE("ticks lie in the range, in order, and are not too many, whatever the range") {
    for (const double low : {-1e300, -1e10, -7.0, -1e-20, 0.0, 1e-300, 0.1, 123456.0, 9.99e299}) {
        for (const double span : {0.0, 1e-300, 1e-12, 0.37, 1.0, 64.0, 1e9, 1e300}) {
            for (const size_t count : {2, 5, 11}) {
                const Range range = widened({low, std::min(low + span, value_max)});
                const Ticks ticks = nice_ticks(range, count);
                CAPTURE(low);
                CAPTURE(span);
                CHECK(ticks.values.size() <= count);
                CHECK(!ticks.values.empty());
                for (size_t i = 0; i < ticks.values.size(); i++) {
                    CHECK(range.position(ticks.values[i]) >= -1e-6);
                    CHECK(range.position(ticks.values[i]) <= 1 + 1e-6);
                    CHECK((i == 0 || ticks.values[i] > ticks.values[i - 1]));
                }
            }
        }
    }
}

TEST_CASE("labels are thinned to a regular distance") {
    using Indices = std::vector<size_t>;
    CHECK(thin_labels(4, 10, 9) == Indices{0, 1, 2, 3});
    CHECK(thin_labels(5, 10, 15) == Indices{0, 2, 4});
    CHECK(thin_labels(11, 10, 21) == Indices{0, 5, 10});
    CHECK(thin_labels(3, 1, 1000) == Indices{0});
    CHECK(thin_labels(0, 1, 1).empty());
    CHECK(thin_labels(10000, 0.06, 30).size() == 20); // every 500th
}

TEST_CASE("text is measured, cut and wrapped") {
    CHECK(text_width("", 10) == 0);
    CHECK(text_width("mm", 10) == doctest::Approx(2 * text_width("m", 10)));
    CHECK(text_width("attention", 20) == doctest::Approx(2 * text_width("attention", 10)));
    CHECK(cut_text("short", 10, 100) == "short");
    const std::string cut = cut_text(std::string(200, 'w'), 10, 100);
    CHECK(cut.substr(cut.size() - 3) == "…");
    CHECK(text_width(cut, 10) <= 100);
    CHECK(text_width(cut, 10) > 85);
    CHECK(cut_text("wide", 10, 1) == "");
    for (size_t n = 1; n < 30; n++) { // never within a character
        const std::string part = cut_text("ééé世界世界", 10, static_cast<double>(3 * n));
        CHECK(test::xml_fault("<a>" + part + "</a>") == "");
    }
    CHECK(wrap_text("one two three", 10, text_width("one two", 10), 5) == Labels{"one two", "three"});
    CHECK(wrap_text("", 10, 100, 5).empty());
    const Labels lines = wrap_text(std::string(100, 'x') + " and more words than fit", 10, 60, 3);
    REQUIRE(lines.size() == 3);
    CHECK(lines[2].find("…") != std::string::npos);
    for (const std::string & line : lines) {
        CHECK(text_width(line, 10) <= 60);
    }
    CHECK(token_label(" the") == "·the");
    CHECK(token_label("\n") == "\\n");
    CHECK(token_label(" ") == "·");
    CHECK(token_label("a ") == "a·");
    CHECK(clean_text("a\tb\x01") == "a\\tb\\x01");
}

TEST_CASE("the font has what we write, and something for the rest") {
    const Glyph & box = glyph(0x4e16); // a Chinese character
    CHECK(box.strokes.size() == 1);
    for (uint32_t code = 0x21; code < 0x7f; code++) {
        CAPTURE(code);
        CHECK(&glyph(code) != &box);
        CHECK(!glyph(code).strokes.empty());
        for (const auto & stroke : glyph(code).strokes) {
            CHECK(stroke.size() >= 2);
            for (const Point & p : stroke) {
                CHECK((p.x >= 0 && p.x <= glyph(code).advance && p.y >= -5 && p.y <= 16));
            }
        }
    }
    for (std::string_view text = "·–…×θ‖°±→−"; !text.empty();) {
        CHECK(&glyph(next_character(text)) != &box);
    }
    CHECK(&glyph(0xe9) == &glyph('e')); // é
    CHECK(glyph(0x301).advance == 0);   // a combining accent
}

TEST_CASE("colours are even, safe and in both themes readable") {
    double previous = -1;
    for (int i = 0; i <= 100; i++) {
        const double light = std::cbrt(luminance(sequential_color(i / 100.0))); // about the lightness that is seen
        CHECK(light > previous);
        previous          = light;
        const double low  = luminance(diverging_color(0.5 - i / 200.0));
        const double high = luminance(diverging_color(0.5 + i / 200.0));
        CHECK(low == doctest::Approx(high).epsilon(0.12)); // both sides as strong
    }
    CHECK(sequential_color(not_a_number) == sequential_color(0));
    CHECK(sequential_color(7) == sequential_color(1));
    CHECK(contrast({0, 0, 0}, {255, 255, 255}) == doctest::Approx(21));
    for (const Theme theme : {Theme::light, Theme::dark}) {
        const Color background = resolve(Role::background, theme);
        CHECK(contrast(resolve(Role::text, theme), background) >= 7);
        CHECK(contrast(resolve(Role::muted, theme), background) >= 4.5); // WCAG AA for text
        for (size_t i = 0; i < series_color_count; i++) {
            CHECK(contrast(resolve(Paint::of_series(i), theme), background) >= 3); // and for graphics
        }
    }
}

TEST_CASE("lines are clipped, dashed and hatched") {
    const Box  box   = {0, 0, 10, 10};
    const auto parts = clip_line({{-5, 5}, {5, 5}, {5, 20}, {8, 20}, {8, 5}}, box);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].front().x == 0);
    CHECK(parts[0].back().y == 10);
    CHECK(parts[1].front().y == 10);
    CHECK(clip_line({{20, 20}, {30, 20}}, box).empty());

    double drawn = 0;
    for (const auto & dash : dashes({{0, 0}, {6, 0}, {10, 0}}, {3, 2})) {
        drawn += dash.back().x - dash.front().x;
    }
    CHECK(drawn == doctest::Approx(6));

    for (const Box & cell : {Box{0, 0, 20, 10}, Box{3.3, 7.1, 1, 1}, Box{1, 1, 40, 2}}) {
        const auto lines = hatching(cell, 5);
        CHECK(!lines.empty());
        for (const auto & line : lines) {
            for (const Point & p : line) {
                CHECK((p.x >= cell.x - 1e-9 && p.x <= cell.x + cell.w + 1e-9));
                CHECK((p.y >= cell.y - 1e-9 && p.y <= cell.y + cell.h + 1e-9));
            }
        }
    }
}

TEST_CASE("shapes cover the pixels they should") {
    constexpr Color black = {0, 0, 0};
    const Color     white = resolve(Role::background, Theme::light);
    Scene           scene;
    scene.width = scene.height = 20;
    const auto pixels          = [&] { return test::decode_png(to_png(scene, Theme::light, 1)); };

    SUBCASE("a rectangle, a quarter of a pixel at its corner") {
        scene.items = {Rect{{2.5, 2.5, 4, 4}, black, ""}};
        CHECK(pixels().at(4, 4) == black);
        CHECK(pixels().at(2, 2).r == 191);
        CHECK(pixels().at(2, 4).r == 128);
        CHECK(pixels().at(8, 4) == white);
    }
    SUBCASE("a polygon, half of the square") {
        scene.items.push_back(path_of({{0, 0}, {20, 0}, {0, 20}}, black, {}));
        CHECK(pixels().at(3, 3) == black);
        CHECK(pixels().at(16, 16) == white);
        CHECK(std::abs(pixels().at(10, 9).r - 128) <= 20);
    }
    SUBCASE("a line with its round ends, overlapping itself, is painted once") {
        scene.items.push_back(path_of({{5, 10}, {15, 10}, {5, 10}}, {}, {Paint(black, 0.5), 4, {}}));
        CHECK(pixels().at(10, 10).r == 128);
        CHECK(pixels().at(10, 14) == white);
        CHECK(pixels().at(1, 10) == white);
    }
    SUBCASE("text") {
        scene.items = {Text{{10, 15}, "I", 16, Anchor::middle, black, true, false}};
        CHECK(pixels().at(10, 10).r < 80);
        CHECK(pixels().at(3, 10) == white);
    }
    SUBCASE("outside the picture") {
        scene.items = {Rect{{-50, -50, 10, 10}, black, ""},
                       Text{{100, 100}, "far", 12, Anchor::start, black, false, true}};
        scene.items.push_back(path_of({{-9, -9}, {-3, -3}}, {}, {black, 1, {}}));
        for (const Color & color : pixels().colors) {
            CHECK(color == white);
        }
    }
}

TEST_CASE("large images are embedded in SVG as they are") {
    Image image{{0, 0, 100, 100}, 100, 100, {}};
    for (size_t i = 0; i < 10000; i++) {
        image.cells.push_back(
            {static_cast<uint8_t>(i), static_cast<uint8_t>(i / 7), 3, static_cast<uint8_t>(i % 5 ? 255 : 0)});
    }
    const auto decoded = test::decode_png(encode_png(image.cells, 100, 100));
    CHECK(decoded.colors == image.cells);
    Scene scene;
    scene.width = scene.height = 100;
    scene.items                = {image};
    const std::string svg      = to_svg(scene, SvgTheme::both);
    CHECK(svg.find("data:image/png;base64,iVBORw0KGgo") != std::string::npos);
    CHECK(test::xml_fault(svg) == "");
    CHECK(svg.size() < 60000);
}

TEST_CASE("Python's own modules read our files") {
    if (std::system("python3 -c 'import xml.etree.ElementTree, zlib' 2>/dev/null") != 0) {
        test::skip("no python3");
        return;
    }
    const std::string dir = test::temp_dir();
    Figure            figure;
    figure.title = "a <b> & θ";
    HeatMap map;
    map.rows = map.columns = 70;
    for (int i = 0; i < 4900; i++) {
        map.values.push_back(static_cast<float>(std::sin(i)));
    }
    figure.charts = {map};
    std::ofstream(dir + "/f.svg", std::ios::binary) << render_svg(figure);
    std::ofstream(dir + "/f.png", std::ios::binary) << render_png(figure);
    std::ofstream(dir + "/check.py") << R"(
import base64, struct, sys, xml.etree.ElementTree as et, zlib
def check_png(data):
    assert data[:8] == b'\x89PNG\r\n\x1a\n'
    at, packed = 8, b''
    while at < len(data):
        n, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        assert zlib.crc32(kind + body) == struct.unpack('>I', data[at + 8 + n:at + 12 + n])[0]
        if kind == b'IHDR': w, h, depth, color = struct.unpack('>IIBB', body[:10])
        if kind == b'IDAT': packed += body
        at += 12 + n
    assert kind == b'IEND' and len(zlib.decompress(packed)) == h * (1 + w * (3 if color == 2 else 4))
    return w, h
ns = '{http://www.w3.org/2000/svg}'
root = et.parse(sys.argv[1] + '/f.svg').getroot()
assert root.tag == ns + 'svg' and root.find(ns + 'title').text == 'a <b> & θ'
image = root.find(ns + 'image')
assert check_png(base64.b64decode(image.get('href').split(',')[1], validate=True)) == (70, 70)
w, h = check_png(open(sys.argv[1] + '/f.png', 'rb').read())
assert (w, h) == (2 * float(root.get('width')), 2 * float(root.get('height')))
)";
    CHECK(std::system(("PYTHONUTF8=1 python3 '" + dir + "/check.py' '" + dir + "'").c_str()) == 0);
}
