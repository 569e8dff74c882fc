// The drawing of llama-diffusion-cli --diffusion-visual, without a terminal.

#include "visual.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using buoy::figure::ScreenFrame;
using buoy::figure::ScreenToken;
using State = buoy::figure::TokenState;
using Lines = std::vector<std::string>;

ScreenFrame frame_of(std::vector<ScreenToken> tokens) { return {std::move(tokens), "status"}; }

// The lines on the screen: what clears is taken out.
Lines lines_of(const ScreenFrame & frame, const VisualSize & size = {40, 10}) {
    const Drawing     drawing = draw(frame, size, false);
    const std::string text    = drawing.text;
    Lines             lines(1);
    for (size_t i = 0; i < text.size(); i++) {
        if (text.compare(i, 3, "\033[K") == 0 || text.compare(i, 3, "\033[J") == 0) {
            i += 2;
        } else if (text[i] == '\n') {
            lines.emplace_back();
        } else {
            lines.back() += text[i];
        }
    }
    CHECK(lines.size() == drawing.columns.size());
    return lines;
}

} // namespace

TEST_CASE("visual: text, masks, status") {
    CHECK(lines_of(frame_of({{"the", State::settled}, {"", State::masked}, {" cat", State::fresh}})) ==
          Lines{"the░ cat", "status"});
    CHECK(lines_of(frame_of({})) == Lines{"", "status"});
    CHECK(lines_of(frame_of({{"a\nb", State::settled}})) == Lines{"a", "b", "status"});
}

TEST_CASE("visual: colours say what is new and what is open") {
    const ScreenFrame frame =
        frame_of({{"a", State::settled}, {"b", State::fresh}, {"", State::masked}, {"c", State::settled}});
    CHECK(draw(frame, {}, true).text.find("a\033[1;32mb\033[0m\033[2m░\033[0mc") != std::string::npos);
    CHECK(draw(frame, {}, false).text.find("\033[1") == std::string::npos);
    CHECK(draw(frame, {}, false).text.find("\033[2m") == std::string::npos);
}

TEST_CASE("visual: characters that span tokens, wide ones, and what a terminal must not get") {
    CHECK(lines_of(frame_of({{"\xe2\x82", State::settled}, {"\xac", State::fresh}})) == Lines{"€", "status"});
    CHECK(lines_of(frame_of({{"\xe2\x82", State::settled}, {"", State::masked}, {"\xac", State::settled}})) ==
          Lines{"\uFFFD\uFFFD░\uFFFD", "status"});
    CHECK(lines_of(frame_of({{"a\tb\x1b[2J\r\x7f\xc2\x9b", State::settled}})) == Lines{"a b·[2J·\uFFFD·", "status"});
    // two columns each, so that one of four does not fit the second time
    CHECK(lines_of(frame_of({{"日本語日", State::settled}}), {5, 10}) == Lines{"日本", "語日", "stat"});
    CHECK(lines_of(frame_of({{"e\u0301e\u0301", State::settled}}), {8, 10}) == Lines{"e\u0301e\u0301", "status"});
}

TEST_CASE("visual: never more lines than the terminal has, and the first mask is among them") {
    std::vector<ScreenToken> cells;
    for (int i = 0; i < 100; i++) {
        cells.push_back({i == 57 ? "" : std::to_string(i) + "\n", i == 57 ? State::masked : State::settled});
    }
    const Lines lines = lines_of(frame_of(cells), {40, 12});
    CHECK(lines.size() == 11);
    CHECK(std::find(lines.begin(), lines.end(), "░58") != lines.end());
    for (const int height : {0, 1, 2, 3}) {
        CHECK(lines_of(frame_of(cells), {1, height}).size() == 2);
    }
}

TEST_CASE("visual: one plain line elsewhere") {
    CHECK(draw_plain(frame_of({{"a\nb\x1b", State::settled}, {"", State::masked}, {"c", State::fresh}})) ==
          "status: a⏎b·_c");
}

TEST_CASE("visual: a terminal that became narrower has broken the lines") {
    const Drawing drawing =
        draw(frame_of({{std::string(35, 'x') + "\n" + std::string(5, 'y'), State::settled}}), {}, false);
    CHECK(drawing.columns == std::vector<int>{35, 5, 6});
    CHECK(drawing.rows_above({80, 24}) == 2);
    CHECK(drawing.rows_above({120, 24}) == 2);
    CHECK(drawing.rows_above({10, 24}) == 5); // 4 rows, 1, and the cursor's
    CHECK(drawing.rows_above({10, 3}) == 2);
}

TEST_CASE("visual: a step is seen for a while, a long text does not take for ever") {
    CHECK(visual_delay({}, 1) == 150);
    CHECK(visual_delay({}, 16) == 150);
    CHECK(visual_delay({}, 64) == 93);
    CHECK(visual_delay({}, 1 << 20) == 1);
    CHECK(visual_delay(0, 16) == 0);
    CHECK(visual_delay(1000, 64) == 1000);
}
