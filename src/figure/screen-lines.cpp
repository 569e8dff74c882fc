#include "buoy/screencast.h"

#include "buoy/printable.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace buoy::figure {

namespace {

constexpr const char * mask_sign = "░";

struct Character {
    std::string text; // "\n" begins a line
    int         width = 1;
    TokenState  state = TokenState::settled;
};

Character character_of(std::string_view bytes, TokenState state) {
    if (bytes[0] == '\n' || bytes[0] == '\t') {
        return {bytes[0] == '\n' ? "\n" : " ", bytes[0] == '\n' ? 0 : 1, state};
    }
    if (printable_length(bytes) == 0) {
        return {utf8_sequence_length(bytes) > 0 && bytes[0] != 0x7f ? "·" : "\uFFFD", 1, state};
    }
    return {std::string(bytes), utf8_width(bytes), state};
}

using Characters = std::vector<Character>;

// A character may begin in one written token and end in the next.
Characters characters_of(const std::vector<ScreenToken> & tokens) {
    Characters              out;
    std::string             bytes;
    std::vector<TokenState> states; // of each byte
    const auto              flush = [&] {
        for (size_t at = 0; at < bytes.size();) {
            const size_t n = utf8_character_length(std::string_view(bytes).substr(at));
            out.push_back(character_of(std::string_view(bytes).substr(at, n), states[at]));
            at += n;
        }
        bytes.clear();
        states.clear();
    };
    for (const ScreenToken & token : tokens) {
        if (token.state == TokenState::masked) {
            flush();
            out.push_back({mask_sign, 1, TokenState::masked});
        } else {
            bytes += token.bytes;
            states.resize(bytes.size(), token.state);
        }
    }
    flush();
    return out;
}

int width_of(const Characters & characters) {
    return std::accumulate(characters.begin(), characters.end(), 0,
                           [](int sum, const Character & character) { return sum + character.width; });
}

// Takes off the line what is to begin the next one: the word that did not fit.
Characters take_word(Characters & line) {
    const auto end = std::find_if(line.rbegin(), line.rend(), [](const Character & character) {
                         return character.text == " " || character.state == TokenState::masked;
                     }).base();
    if (end == line.begin()) {
        return {};
    }
    Characters word(end, line.end());
    line.erase(end, line.end());
    return word;
}

ScreenLine spans_of(const Characters & characters) {
    ScreenLine line;
    for (const Character & character : characters) {
        if (line.empty() || line.back().state != character.state) {
            line.push_back({"", character.state, 0});
        }
        line.back().text += character.text;
        line.back().columns += character.width;
    }
    return line;
}

const char * style_of(TokenState state) {
    switch (state) {
        case TokenState::settled: return "";
        case TokenState::fresh: return "\033[1;32m";
        case TokenState::masked: return "\033[2m";
    }
    return "";
}

} // namespace

std::vector<ScreenLine> screen_lines(const std::vector<ScreenToken> & tokens, int columns, LineBreak line_break) {
    const int               width = std::max(columns, 2); // a wide character must fit
    std::vector<ScreenLine> lines;
    Characters              line;
    int                     column = 0;
    for (const Character & character : characters_of(tokens)) {
        if (character.text == "\n") {
            lines.push_back(spans_of(line));
            line.clear();
            column = 0;
            continue;
        }
        if (column + character.width > width) {
            const bool at_words = line_break == LineBreak::at_words;
            Characters rest     = at_words && character.text != " " ? take_word(line) : Characters();
            lines.push_back(spans_of(line));
            line   = std::move(rest);
            column = width_of(line);
            if (at_words && character.text == " ") {
                continue; // the break stands for it
            }
        }
        line.push_back(character);
        column += character.width;
    }
    lines.push_back(spans_of(line));
    return lines;
}

ScreenLine status_line(const std::string & text, int columns) {
    ScreenLine line = screen_lines({{text, TokenState::settled}}, columns)[0];
    for (ScreenSpan & span : line) {
        span.state = TokenState::masked;
    }
    return line;
}

std::string to_escapes(const ScreenLine & line, bool color) {
    std::string out;
    for (const ScreenSpan & span : line) {
        const bool is_plain = !color || span.state == TokenState::settled;
        out += is_plain ? span.text : style_of(span.state) + span.text + "\033[0m";
    }
    return out;
}

} // namespace buoy::figure
