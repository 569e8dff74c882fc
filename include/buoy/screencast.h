#pragma once

#include <string>
#include <vector>

// A text while it is written, as a terminal shows it, and as a file that plays it again.

namespace buoy::figure {

enum class TokenState {
    settled,
    fresh,  // written in this step
    masked, // still to be written
};

struct ScreenToken {
    std::string bytes; // may be part of a character; of a masked one, not used
    TokenState  state = TokenState::settled;
};

struct ScreenSpan {
    std::string text; // printable
    TokenState  state   = TokenState::settled;
    int         columns = 0;

    bool operator==(const ScreenSpan & other) const = default;
};

using ScreenLine = std::vector<ScreenSpan>;

enum class LineBreak {
    anywhere, // as terminals do
    at_words, // where a line has more than one
};

// The tokens as lines of at most that many columns, and two at least. A character has the state of the token that it begins in. Bytes
// that would move a cursor become signs.
std::vector<ScreenLine> screen_lines(const std::vector<ScreenToken> & tokens, int columns,
                                     LineBreak line_break = LineBreak::anywhere);

// The line below them: dim, cut where it is longer.
ScreenLine status_line(const std::string & text, int columns);

// A line for a terminal: fresh in bold green, masked dim.
std::string to_escapes(const ScreenLine & line, bool color);

struct ScreenFrame {
    std::vector<ScreenToken> tokens;
    std::string              status; // one line below the text
};

struct Screencast {
    std::string              command; // that made it, shown above the text
    int                      columns      = 80;
    int                      milliseconds = 150; // that a frame is seen; the last one stays for 3 s longer
    std::vector<ScreenFrame> frames;
};

enum class ScreencastFormat {
    gif,
    svg,  // the last frame where animations are off
    cast, // asciicast v2, for asciinema
};

// By the end of the file's name; throws Error where that is none of them.
ScreencastFormat screencast_format(const std::string & path);

// The file's bytes. The same frames give the same bytes.
std::string render_screencast(const Screencast & cast, ScreencastFormat format);

} // namespace buoy::figure
