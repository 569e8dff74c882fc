#include "figure/screencast.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace buoy::figure {

namespace {

struct FormatName {
    const char *     ending;
    ScreencastFormat format;
};

constexpr FormatName formats[] = {
    {".gif", ScreencastFormat::gif}, {".svg", ScreencastFormat::svg}, {".cast", ScreencastFormat::cast}};

// asciicast v2: a header, then what a terminal is sent and when, a line each.
std::string screencast_cast(const Screencast & cast) {
    const Screens          screens(cast);
    const size_t           rows   = screens.command.size() + screens.text_rows + 2;
    nlohmann::ordered_json header = {{"version", 2},
                                     {"width", cast.columns},
                                     {"height", std::max<size_t>(rows, 10)},
                                     {"command", utf8_repair(cast.command)},
                                     {"title", utf8_repair(cast.command)},
                                     {"env", {{"TERM", "xterm-256color"}}}};
    std::string            out    = header.dump() + "\n";
    double                 now    = 0;
    const auto  send = [&](const std::string & text) { out += nlohmann::json::array({now, "o", text}).dump() + "\n"; };
    std::string text;
    for (const ScreenLine & line : screens.command) {
        text += to_escapes(line, true) + "\r\n";
    }
    send(text + "\033[?25l");
    size_t n_above = 0; // lines of the frame before, above its last
    for (const Screen & screen : screens.all) {
        text = "\r" + (n_above > 0 ? "\033[" + std::to_string(n_above) + "A" : "") + "\033[J";
        for (const ScreenLine & line : screen.text) {
            text += to_escapes(line, true) + "\r\n";
        }
        send(text + to_escapes(screen.status, true));
        n_above = screen.text.size();
        now += cast.milliseconds / 1000.0;
    }
    send("\033[?25h\r\n");
    return out;
}

} // namespace

Screens::Screens(const Screencast & cast) {
    command = screen_lines({{"$ " + cast.command, TokenState::settled}}, cast.columns, LineBreak::at_words);
    for (const ScreenFrame & frame : cast.frames) {
        all.push_back(
            {screen_lines(frame.tokens, cast.columns, LineBreak::at_words), status_line(frame.status, cast.columns)});
        text_rows = std::max(text_rows, all.back().text.size());
    }
}

ScreenLayout::ScreenLayout(const Screens & screens, int columns) {
    width      = 2 * margin + cell_width * columns;
    text_top   = margin + row(screens.command.size()) + gap;
    status_top = text_top + row(screens.text_rows) + gap;
    height     = status_top + row_height + margin;
}

Color ink_of(TokenState state) {
    switch (state) {
        case TokenState::settled: return {0xd8, 0xde, 0xe9};
        case TokenState::fresh: return {0x8f, 0xd6, 0x94};
        case TokenState::masked: return {0x8b, 0x94, 0xa4};
    }
    return {};
}

ScreencastFormat screencast_format(const std::string & path) {
    for (const FormatName & one : formats) {
        if (path.size() > std::string(one.ending).size() && path.ends_with(one.ending)) {
            return one.format;
        }
    }
    fail(in_quotes(path), ": expected a file name that ends with .gif, .svg or .cast");
}

std::string render_screencast(const Screencast & cast, ScreencastFormat format) {
    if (cast.frames.empty()) {
        fail("a screencast needs a frame at least");
    }
    if (cast.columns < 2 || cast.columns > 1000) {
        fail("columns of a screencast: expected 2 to 1000, got ", cast.columns);
    }
    if (cast.milliseconds < 1 || cast.milliseconds > 60000) {
        fail("milliseconds of a screencast's frame: expected 1 to 60000, got ", cast.milliseconds);
    }
    switch (format) {
        case ScreencastFormat::gif: return screencast_gif(cast);
        case ScreencastFormat::svg: return screencast_svg(cast);
        case ScreencastFormat::cast: return screencast_cast(cast);
    }
    return "";
}

} // namespace buoy::figure
