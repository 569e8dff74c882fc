#include "buoy/figure.h"
#include "figure/layout.h"

#include "buoy/error.h"
#include "figure/svg.h"
#include "figure/text.h"
#include "support/figure-files.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace buoy;
using namespace std::string_literals;
using namespace buoy::figure;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double inf          = std::numeric_limits<double>::infinity();

std::vector<const Text *> texts(const Scene & scene) {
    std::vector<const Text *> out;
    for (const Item & item : scene.items) {
        if (const Text * text = std::get_if<Text>(&item)) {
            out.push_back(text);
        }
    }
    return out;
}

bool overlap(const Box & a, const Box & b) {
    constexpr double slack = 0.5; // neighbouring labels may touch
    return a.x + a.w > b.x + slack && b.x + b.w > a.x + slack && a.y + a.h > b.y + slack && b.y + b.h > a.y + slack;
}

// Every coordinate is a number inside the picture, no text covers another, and both files are well-formed.
void check_figure(const Figure & figure) {
    const Scene scene  = layout(figure);
    const auto  inside = [&](double x, double y) {
        return std::isfinite(x) && std::isfinite(y) && x >= -1 && y >= -1 && x <= scene.width + 1 &&
               y <= scene.height + 1;
    };
    const auto box_inside = [&](const Box & box) {
        return box.w >= 0 && box.h >= 0 && inside(box.x, box.y) && inside(box.x + box.w, box.y + box.h);
    };
    for (const Item & item : scene.items) {
        if (const Rect * rect = std::get_if<Rect>(&item)) {
            CHECK(box_inside(rect->box));
        } else if (const Image * image = std::get_if<Image>(&item)) {
            CHECK(box_inside(image->box));
            CHECK(image->cells.size() == image->rows * image->columns);
        } else if (const Path * path = std::get_if<Path>(&item)) {
            bool all = true;
            for (const auto & line : path->lines) {
                for (const Point & p : line) {
                    all = all && inside(p.x, p.y);
                }
            }
            CHECK(all);
        }
    }
    const auto all = texts(scene);
    for (size_t i = 0; i < all.size(); i++) {
        INFO("text: ", all[i]->text);
        CHECK(!all[i]->text.empty());
        CHECK(box_inside(text_box(*all[i])));
        for (size_t j = 0; j < i; j++) {
            INFO("other: ", all[j]->text);
            CHECK_FALSE(overlap(text_box(*all[i]), text_box(*all[j])));
        }
    }
    for (const SvgTheme theme : {SvgTheme::both, SvgTheme::light, SvgTheme::dark}) {
        const std::string svg = render_svg(figure, theme);
        CHECK(test::xml_fault(svg) == "");
        CHECK(svg.find("nan") == std::string::npos);
    }
    CHECK(to_svg(scene, SvgTheme::both) == render_svg(figure));
    const std::string png     = render_png(figure, Theme::light, 1);
    const auto        decoded = test::decode_png(png);
    CHECK(decoded.width == static_cast<size_t>(std::ceil(scene.width)));
    CHECK(decoded.height == static_cast<size_t>(std::ceil(scene.height)));
    CHECK(png == render_png(figure, Theme::light, 1));
}

HeatMap heat_map(size_t rows, size_t columns) {
    HeatMap map;
    map.rows    = rows;
    map.columns = columns;
    for (size_t i = 0; i < rows * columns; i++) {
        map.values.push_back(static_cast<float>(i % 17));
    }
    return map;
}

Figure one(Chart chart, const std::string & title = "Title") {
    Figure figure;
    figure.title  = title;
    figure.charts = {std::move(chart)};
    return figure;
}

LineChart lines(std::vector<Series> series) {
    LineChart chart;
    chart.title   = "lines";
    chart.x.label = "layer";
    chart.y.label = "share";
    chart.series  = std::move(series);
    return chart;
}

} // namespace

TEST_CASE("figures of degenerate data are whole") {
    SUBCASE("nothing at all") { check_figure({}); }
    SUBCASE("no series") { check_figure(one(LineChart{})); }
    SUBCASE("a series without points") { check_figure(one(lines({{"a", {}, {}, {}, {}}}))); }
    SUBCASE("one point") { check_figure(one(lines({{"a", {3}, {5}, {4}, {6}}}))); }
    SUBCASE("a constant") { check_figure(one(lines({{"a", {}, {7, 7, 7}, {7, 7, 7}, {7, 7, 7}}}))); }
    SUBCASE("zeros") { check_figure(one(lines({{"a", {}, {0, 0}, {}, {}}}))); }
    SUBCASE("same x") { check_figure(one(lines({{"a", {2, 2, 2}, {1, 2, 3}, {}, {}}}))); }
    SUBCASE("not finite") {
        check_figure(one(lines({{"a", {}, {not_a_number, 1, inf, -inf, 2, 3, not_a_number}, {}, {}}})));
    }
    SUBCASE("only NaN") {
        check_figure(one(lines(
            {{"a", {}, {not_a_number, not_a_number}, {not_a_number, not_a_number}, {not_a_number, not_a_number}}})));
    }
    SUBCASE("x not finite") { check_figure(one(lines({{"a", {not_a_number, 1, inf}, {1, 2, 3}, {}, {}}}))); }
    SUBCASE("huge") { check_figure(one(lines({{"a", {-1e308, 0, 1e308}, {-1.7e308, 0, 1.7e308}, {}, {}}}))); }
    SUBCASE("tiny") { check_figure(one(lines({{"a", {}, {1e-310, 3e-310, 0}, {}, {}}}))); }
    SUBCASE("far from zero") { check_figure(one(lines({{"a", {}, {1e15, 1e15 + 1, 1e15 + 2}, {}, {}}}))); }
    SUBCASE("no groups") { check_figure(one(BarChart{})); }
    SUBCASE("bars not finite") {
        BarChart bars;
        bars.groups = {"a", "b", "c", "d"};
        bars.series = {
            {"s", {not_a_number, inf, -1e308, 3}, {not_a_number, 1, -inf, -1e308}, {not_a_number, 1, inf, 1e308}}};
        check_figure(one(bars));
    }
    SUBCASE("no cells") { check_figure(one(HeatMap{})); }
    SUBCASE("rows without columns") { check_figure(one(heat_map(3, 0))); }
    SUBCASE("one cell") { check_figure(one(heat_map(1, 1))); }
    SUBCASE("one column") { check_figure(one(heat_map(300, 1))); }
    SUBCASE("one row, square cells") {
        HeatMap map = heat_map(1, 3000);
        map.square  = true;
        check_figure(one(map));
    }
}

TEST_CASE("heat maps of one value, whatever it is, are whole") {
    for (const ColorMap colors : {ColorMap::sequential, ColorMap::diverging}) {
        for (const Scale scale : {Scale::linear, Scale::log}) {
            for (const float value : {0.0f, -1.0f, 3e38f, 1e-45f, std::numeric_limits<float>::quiet_NaN(),
                                      std::numeric_limits<float>::infinity()}) {
                HeatMap map = heat_map(2, 3);
                map.values  = {value, value, value, value, value, -value};
                map.map     = colors;
                map.scale   = scale;
                check_figure(one(map));
            }
        }
    }
}

TEST_CASE("what lies beyond an axis stays inside the picture") {
    LineChart chart = lines({{"a", {-9, 0, 1, 2, 30}, {-50, 0, 90, 3, 4}, {-60, -1, 80, 2, 3}, {-40, 1, 99, 4, 5}}});
    chart.x.min     = 0;
    chart.x.max     = 2;
    chart.y.min     = 1;
    chart.y.max     = 5;
    BarChart bars;
    bars.groups   = {"a", "b"};
    bars.series   = {{"s", {-40, 70}, {-43, -130}, {-37, 270}}};
    bars.y.min    = 0;
    bars.y.max    = 10;
    Figure figure = one(chart);
    figure.charts.emplace_back(bars);
    for (const ColorMap colors : {ColorMap::sequential, ColorMap::diverging}) {
        for (const Scale scale : {Scale::linear, Scale::log}) {
            HeatMap map = heat_map(1, 4);
            map.values  = {1e-30f, 1, 5, -7};
            map.map     = colors;
            map.scale   = scale;
            figure.charts.emplace_back(map);
            map.value.max = 2;
            figure.charts.emplace_back(map);
            map.value.min = 1.5;
            figure.charts.emplace_back(map);
        }
    }
    check_figure(figure);
    chart.y.max.reset(); // all data below the one bound
    chart.y.min   = 1000;
    figure.charts = {chart};
    check_figure(figure);

    HeatMap map       = heat_map(1, 4);
    map.values        = {1e-30f, 1e-2f, 1, 100};
    map.scale         = Scale::log;
    map.value.min     = 1e-2;
    map.value.max     = 1;
    const Scene scene = layout(one(map));
    for (const Item & item : scene.items) {
        if (const Image * image = std::get_if<Image>(&item); image != nullptr && image->columns == 4) {
            CHECK(image->cells[0] == sequential_color(0));
            CHECK(image->cells[1] == sequential_color(0));
            CHECK(image->cells[2] == sequential_color(1));
            CHECK(image->cells[3] == sequential_color(1));
        }
    }
}

TEST_CASE("sizes that disagree are refused") {
    CHECK_THROWS_AS(layout(one(lines({{"a", {1, 2}, {1}, {}, {}}}))), Error);
    CHECK_THROWS_AS(layout(one(lines({{"a", {}, {1, 2}, {1}, {1, 2}}}))), Error);
    BarChart bars;
    bars.groups = {"a", "b"};
    bars.series = {{"s", {1}, {}, {}}};
    CHECK_THROWS_AS(layout(one(bars)), Error);
    HeatMap map = heat_map(2, 2);
    map.values.pop_back();
    CHECK_THROWS_AS(layout(one(map)), Error);
    map         = heat_map(2, 2);
    map.hatched = {{2, 0}};
    CHECK_THROWS_AS(layout(one(map)), Error);
    map          = heat_map(2, 2);
    map.outlined = {{0, 2}};
    CHECK_THROWS_AS(layout(one(map)), Error);
    map            = heat_map(2, 2);
    map.row_labels = {"a"};
    CHECK_THROWS_AS(layout(one(map)), Error);
    LineChart chart = lines({{"a", {}, {1, 2}, {}, {}}});
    chart.y.min     = 2;
    chart.y.max     = 1;
    CHECK_THROWS_AS(layout(one(chart)), Error);
    CHECK_THROWS_AS(render_png(one(heat_map(1, 1)), Theme::light, 100), Error);
    Figure wide = one(heat_map(1, 1));
    wide.width  = 1e9;
    CHECK_THROWS_AS(layout(wide), Error);
}

TEST_CASE("figure: marked cells are told from each other, and can be read from the SVG") {
    HeatMap map           = heat_map(3, 4);
    map.hatched           = {{0, 1}, {2, 3}};
    map.hatched_label     = "anchor";
    map.outlined          = {{1, 0}};
    map.outlined_label    = "largest column";
    const std::string svg = render_svg(one(map));
    CHECK(test::contains(svg, ">anchor<"));
    CHECK(test::contains(svg, ">largest column<"));
    CHECK(test::contains(svg, "2 cells hatched; 1 cells outlined."));
    std::string hatched, outlined; // dark and light ones are two paths
    for (const auto & [name, cells] : {std::pair("data-hatched=\"", &hatched), {"data-outlined=\"", &outlined}}) {
        for (size_t at = svg.find(name); at != std::string::npos; at = svg.find(name, at + 1)) {
            const size_t begin = at + std::string(name).size();
            *cells += svg.substr(begin, svg.find('"', begin) - begin) + " ";
        }
    }
    CHECK((hatched == "0,1 2,3 " || hatched == "2,3 0,1 "));
    CHECK(outlined == "1,0 ");
    map.hatched.clear();
    CHECK_FALSE(test::contains(render_svg(one(map)), ">anchor<")); // nothing is hatched, so nothing is said about it
}

TEST_CASE("labels never cover each other, whatever their number and length") {
    std::mt19937 random(7);
    for (const size_t columns : {1, 7, 71, 128, 3000}) {
        for (const size_t rows : {1, 20, 500}) {
            HeatMap map       = heat_map(rows, columns);
            map.title         = "title";
            map.x_label       = "position";
            map.y_label       = "step";
            map.value.label   = "received attention";
            map.hatched       = {{rows - 1, columns - 1}, {0, 0}};
            map.hatched_label = "anchor";
            map.row_marks     = {0, rows - 1};
            map.column_marks  = {columns / 2};
            map.marks_label   = "end of block";
            map.separators    = {{0, "prompt"}, {columns / 2, "answer"}, {columns / 2 + 1, "more"}};
            if (random() % 2 == 0) {
                for (size_t i = 0; i < columns; i++) {
                    map.column_labels.push_back(token_label(std::string(random() % 30, "m i"[random() % 3])));
                }
                for (size_t i = 0; i < rows; i++) {
                    map.row_labels.push_back(std::string(random() % 60, 'w'));
                }
            }
            CAPTURE(rows);
            CAPTURE(columns);
            check_figure(one(map));
        }
    }
}

TEST_CASE("narrow grids and long names") {
    const std::string name =
        "a very long name of a model, of which nobody knows why it has to be that long (Q4_K_M, 8B, instruct)";
    Figure figure;
    figure.title    = name + name;
    figure.subtitle = name + name + name;
    figure.caption  = name + name + name + std::string(300, 'x');
    figure.columns  = 3;
    for (size_t i = 0; i < 7; i++) {
        LineChart chart = lines({{name, {}, {1, 2, 3}, {}, {}}, {"b", {}, {-2e7, 3, 1}, {}, {}}});
        chart.title = chart.x.label = chart.y.label = name;
        BarChart bars;
        bars.title = bars.y.label = bars.x_label = name;
        bars.groups                              = {"one", name, "three words here", ""};
        bars.series = {{name, {1, 2, 3, 4}, {}, {}}, {"b", {-1e-7, 2, 3, 4}, {-1, 1, 2, 3}, {1, 3, 4, 5}}};
        HeatMap map = heat_map(4, 9);
        map.title = map.x_label = map.y_label = map.value.label = name;
        map.row_labels                                          = {name, name, "a", ""};
        figure.charts.push_back(i % 3 == 0 ? Chart(chart) : i % 3 == 1 ? Chart(bars) : Chart(map));
    }
    for (const double width : {0.0, 620.0, 2000.0}) {
        for (const bool shared : {false, true}) {
            figure.width        = width;
            figure.shared_scale = shared;
            check_figure(figure);
        }
    }
}

TEST_CASE("any bytes can be a label") {
    const std::string nasty =
        "<a href=\"x\">&amp;]]></a>\n\t\r\0\x01\x1b[31m\x7f\xff\xc3 \xef\xbf\xbf "s + "θ 世界 \U0001f6df \u202e";
    HeatMap map = heat_map(2, 2);
    map.title = map.x_label = map.y_label = map.value.label = nasty;
    map.row_labels = map.column_labels = {nasty, "\x80"};
    map.separators                     = {{0, nasty}};
    map.hatched                        = {{0, 0}};
    map.hatched_label                  = nasty;
    Figure figure                      = one(map, nasty);
    figure.subtitle = figure.caption = nasty;
    figure.charts.emplace_back(lines({{nasty, {}, {1, 2}, {}, {}}}));
    BarChart bars;
    bars.groups = {nasty};
    bars.series = {{nasty, {1}, {}, {}}};
    figure.charts.emplace_back(bars);
    check_figure(figure);

    const std::string svg = render_svg(one(LineChart{}, "a <b> & \"c\""));
    CHECK(svg.find("a &lt;b&gt; &amp; &quot;c&quot;") != std::string::npos);
    CHECK(svg.find("<b>") == std::string::npos);
}

TEST_CASE("a cell is drawn where it must be, in its colour") {
    HeatMap map;
    map.rows             = 2;
    map.columns          = 3;
    map.values           = {0, 1, 2, 3, 4, static_cast<float>(not_a_number)};
    const Figure  figure = one(map);
    const Scene   scene  = layout(figure);
    const Image * image  = nullptr;
    for (const Item & item : scene.items) {
        image = image == nullptr ? std::get_if<Image>(&item) : image;
    }
    REQUIRE(image != nullptr);
    for (const Theme theme : {Theme::light, Theme::dark}) {
        const auto pixels = test::decode_png(render_png(figure, theme, 2));
        CHECK(pixels.at(1, 1) == resolve(Role::background, theme));
        for (size_t row = 0; row < 2; row++) {
            for (size_t column = 0; column < 3; column++) {
                const double x        = image->box.x + image->box.w * (static_cast<double>(column) + 0.5) / 3;
                const double y        = image->box.y + image->box.h * (static_cast<double>(row) + 0.5) / 2;
                const Color  expected = row == 1 && column == 2 ? resolve(Role::absent, theme)
                                                                : sequential_color(map.values[row * 3 + column] / 4);
                CHECK(pixels.at(static_cast<size_t>(2 * x), static_cast<size_t>(2 * y)) == expected);
            }
        }
    }
}

TEST_CASE("more columns than pixels are put together, and the caption says so") {
    HeatMap map          = heat_map(2, 10000);
    map.values           = std::vector<float>(20000, 0.0f);
    map.values[4321]     = 8;
    const auto brightest = [](const Scene & scene) {
        Color best;
        for (const Item & item : scene.items) {
            if (const Image * image = std::get_if<Image>(&item); image != nullptr && image->rows == 2) {
                CHECK(image->columns < 1000);
                for (const Color & c : image->cells) {
                    best = luminance(c) > luminance(best) ? c : best;
                }
            }
        }
        return best;
    };
    const Scene largest = layout(one(map));
    CHECK(brightest(largest) == sequential_color(1));
    CHECK(largest.description.find("the maximum of up to 1") != std::string::npos);
    map.downsample   = Downsample::mean;
    const Scene mean = layout(one(map));
    CHECK(luminance(brightest(mean)) < luminance(sequential_color(0.2)));
    CHECK(mean.description.find("the mean of up to 1") != std::string::npos);
    check_figure(one(map));
    map.values[4321] = -8;
    map.map          = ColorMap::diverging;
    map.downsample   = Downsample::max;
    CHECK(layout(one(map)).description.find("the extreme of") != std::string::npos);
    CHECK(layout(one(heat_map(2, 30))).description.find("Each cell") == std::string::npos);
}

TEST_CASE("charts that share a scale have one legend and the same axis") {
    Figure figure;
    figure.columns      = 2;
    figure.shared_scale = true;
    figure.charts       = {lines({{"one", {}, {0, 1}, {}, {}}}), lines({{"one", {}, {0, 100}, {}, {}}})};
    const auto count    = [&](const std::string & text) {
        const Scene scene = layout(figure);
        size_t      n     = 0;
        for (const Text * t : texts(scene)) {
            n += t->text == text;
        }
        return n;
    };
    CHECK(count("one") == 1);
    CHECK(count("100") == 2);
    figure.shared_scale = false;
    CHECK(count("one") == 2);
    CHECK(count("100") == 1);

    HeatMap low = heat_map(3, 3), high = heat_map(3, 3);
    low.value.label = high.value.label = "weight";
    high.values.assign(9, 1000);
    figure.charts = {low, high};
    CHECK(count("weight") == 2);
    figure.shared_scale = true;
    CHECK(count("weight") == 1);
    CHECK(count("1000") == 1);
}

TEST_CASE("the themes differ, and SVG carries both") {
    const Figure figure = one(lines({{"a", {}, {1, 2}, {}, {}}}));
    CHECK(render_png(figure, Theme::light, 1) != render_png(figure, Theme::dark, 1));
    const std::string both = render_svg(figure);
    CHECK(both.find("prefers-color-scheme") != std::string::npos);
    CHECK(both.find(hex(resolve(Role::text, Theme::light))) != std::string::npos);
    CHECK(both.find(hex(resolve(Role::text, Theme::dark))) != std::string::npos);
    const std::string dark = render_svg(figure, SvgTheme::dark);
    CHECK(dark.find("<style") == std::string::npos);
    CHECK(dark.find(hex(resolve(Role::text, Theme::light))) == std::string::npos);
    CHECK(both.find("<title>Title</title>") != std::string::npos);
    CHECK(both.find("<desc>Line chart") != std::string::npos);
}
