// The drawing of llama-diffusion-cli --diffusion-visual, without a terminal.

#include "visual.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using State = VisualCell::State;

VisualFrame frame_of(std::vector<VisualCell> cells, int width = 40, int height = 10) {
    VisualFrame frame;
    frame.cells  = std::move(cells);
    frame.status = "status";
    frame.width  = width;
    frame.height = height;
    frame.color  = false;
    return frame;
}

// The lines on the screen: what clears is taken out.
std::vector<std::string> lines_of(const VisualFrame & frame) {
    int                      n_lines = 0;
    std::string              text    = render(frame, n_lines);
    std::vector<std::string> lines(1);
    for (size_t i = 0; i < text.size(); i++) {
        if (text.compare(i, 3, "\033[K") == 0 || text.compare(i, 3, "\033[J") == 0) {
            i += 2;
        } else if (text[i] == '\n') {
            lines.emplace_back();
        } else {
            lines.back() += text[i];
        }
    }
    CHECK(static_cast<int>(lines.size()) == n_lines);
    return lines;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("visual: text, masks, status") {
    CHECK(lines_of(frame_of({{"the", State::settled}, {"", State::masked}, {" cat", State::fresh}})) ==
          Lines{"the░ cat", "status"});
    CHECK(lines_of(frame_of({})) == Lines{"", "status"});
    CHECK(lines_of(frame_of({{"a\nb", State::settled}})) == Lines{"a", "b", "status"});
}

TEST_CASE("visual: colours say what is new and what is open") {
    VisualFrame frame =
        frame_of({{"a", State::settled}, {"b", State::fresh}, {"", State::masked}, {"c", State::settled}});
    frame.color   = true;
    int  n_lines  = 0;
    auto rendered = render(frame, n_lines);
    CHECK(rendered.find("a\033[1;32mb\033[0m\033[2m░\033[0mc") != std::string::npos);
    frame.color = false;
    CHECK(render(frame, n_lines).find("\033[1") == std::string::npos);
    CHECK(render(frame, n_lines).find("\033[2m") == std::string::npos);
}

TEST_CASE("visual: characters that span tokens, wide ones, and what a terminal must not get") {
    CHECK(lines_of(frame_of({{"\xe2\x82", State::settled}, {"\xac", State::fresh}})) == Lines{"€", "status"});
    CHECK(lines_of(frame_of({{"\xe2\x82", State::settled}, {"", State::masked}, {"\xac", State::settled}})) ==
          Lines{"\uFFFD\uFFFD░\uFFFD", "status"});
    CHECK(lines_of(frame_of({{"a\tb\x1b[2J\r\x7f\xc2\x9b", State::settled}})) == Lines{"a b·[2J·\uFFFD·", "status"});
    // two columns each, so that one of four does not fit the second time
    CHECK(lines_of(frame_of({{"日本語日", State::settled}}, 5)) == Lines{"日本", "語日", "stat"});
    CHECK(lines_of(frame_of({{"e\u0301e\u0301", State::settled}}, 8)) == Lines{"e\u0301e\u0301", "status"});
}

TEST_CASE("visual: never more lines than the terminal has, and the first mask is among them") {
    std::vector<VisualCell> cells;
    for (int i = 0; i < 100; i++) {
        cells.push_back({i == 57 ? "" : std::to_string(i) + "\n", i == 57 ? State::masked : State::settled});
    }
    const Lines lines = lines_of(frame_of(cells, 40, 12));
    CHECK(lines.size() == 11);
    CHECK(std::find(lines.begin(), lines.end(), "░58") != lines.end());
    for (const int height : {0, 1, 2, 3}) {
        CHECK(lines_of(frame_of(cells, 1, height)).size() == 2);
    }
}

TEST_CASE("visual: one plain line elsewhere") {
    CHECK(render_plain(frame_of({{"a\nb\x1b", State::settled}, {"", State::masked}, {"c", State::fresh}})) ==
          "status: a⏎b·_c");
}
