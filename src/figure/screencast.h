#pragma once

#include "buoy/screencast.h"
#include "figure/color.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy::figure {

constexpr int last_frame_ms = 3000; // longer than the others

// What a screen shows at one time, and the screen itself: as high as the longest text needs.

struct Screen {
    std::vector<ScreenLine> text;
    ScreenLine              status;
};

struct Screens {
    explicit Screens(const Screencast & cast);

    std::vector<ScreenLine> command;
    std::vector<Screen>     all;
    size_t                  text_rows = 1;
};

// Where lines stand in a picture, in CSS pixels: the command, the text, the status at the bottom.
struct ScreenLayout {
    static constexpr double cell_width = 9.6;
    static constexpr double row_height = 22;
    static constexpr double base_line  = 16; // below a row's top
    static constexpr double font_size  = 16;
    static constexpr double margin     = 16;
    static constexpr double gap        = 8; // around the text

    ScreenLayout(const Screens & screens, int columns);

    double row(size_t i) const { return row_height * static_cast<double>(i); }

    double width = 0, height = 0;
    double text_top = 0, status_top = 0;
};

constexpr Color screen_color = {0x1d, 0x21, 0x29};

Color ink_of(TokenState state);

std::string screencast_gif(const Screencast & cast);
std::string screencast_svg(const Screencast & cast);

} // namespace buoy::figure
