#include "visual.h"

#include "buoy/utf8.h"
#include "interrupt.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

using State = VisualCell::State;

struct Glyph {
    std::string text; // one character, or "\n"
    int         width = 1;
    State       state = State::settled;
};

const char * style_of(State state) {
    switch (state) {
        case State::settled: return "";
        case State::fresh: return "\033[1;32m";
        case State::masked: return "\033[2m";
    }
    return "";
}

// The characters of a stretch of bytes; each has the state of the token that it begins in.
void add_glyphs(std::string_view bytes, const std::vector<State> & states, std::vector<Glyph> & glyphs) {
    size_t at = 0;
    while (at < bytes.size()) {
        const size_t n     = buoy::utf8_character_length(bytes.substr(at));
        const auto   first = static_cast<unsigned char>(bytes[at]);
        Glyph        glyph = {std::string(bytes.substr(at, n)), 1, states[at]};
        if (first == '\t') {
            glyph.text = " ";
        } else if (first < 0x20 && first != '\n') {
            glyph.text = "·"; // what else moves the cursor, or worse
        } else if (first == 0x7f || buoy::utf8_sequence_length(glyph.text) == 0) {
            glyph.text = "\uFFFD";
        } else {
            glyph.width = first == '\n' ? 0 : buoy::utf8_width(glyph.text);
        }
        const bool is_control = n == 2 && first == 0xC2 && static_cast<unsigned char>(bytes[at + 1]) < 0xA0;
        if (is_control) {
            glyph = {"·", 1, states[at]};
        }
        glyphs.push_back(std::move(glyph));
        at += n;
    }
}

std::vector<Glyph> glyphs_of(const VisualFrame & frame, const std::string & mask) {
    std::vector<Glyph> glyphs;
    std::string        bytes;
    std::vector<State> states;
    for (const VisualCell & cell : frame.cells) {
        if (cell.state != State::masked) {
            bytes += cell.bytes;
            states.resize(bytes.size(), cell.state);
            continue;
        }
        add_glyphs(bytes, states, glyphs);
        bytes.clear();
        states.clear();
        glyphs.push_back({mask, 1, State::masked});
    }
    add_glyphs(bytes, states, glyphs);
    return glyphs;
}

using Line = std::vector<Glyph>;

std::vector<Line> wrapped(const std::vector<Glyph> & glyphs, int width) {
    std::vector<Line> lines(1);
    int               column = 0;
    for (const Glyph & glyph : glyphs) {
        if (glyph.text == "\n" || column + glyph.width > width) {
            lines.emplace_back();
            column = 0;
        }
        if (glyph.text != "\n") {
            lines.back().push_back(glyph);
            column += glyph.width;
        }
    }
    return lines;
}

std::string styled(const Line & line, bool color) {
    std::string out;
    State       state = State::settled;
    for (const Glyph & glyph : line) {
        if (color && glyph.state != state) {
            out += std::string(state == State::settled ? "" : "\033[0m") + style_of(glyph.state);
            state = glyph.state;
        }
        out += glyph.text;
    }
    return out + (color && state != State::settled ? "\033[0m" : "");
}

bool has_mask(const Line & line) {
    return std::any_of(line.begin(), line.end(), [](const Glyph & glyph) { return glyph.state == State::masked; });
}

void set_terminal_size(VisualFrame & frame) {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        frame.width  = size.ws_col;
        frame.height = size.ws_row;
    }
}

void print(const std::string & text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

} // namespace

std::string render(const VisualFrame & frame, int & n_lines) {
    const int               width = std::max(frame.width, 2); // a wide character must fit
    const std::vector<Line> lines = wrapped(glyphs_of(frame, "░"), width);
    const auto              total = static_cast<int>(lines.size());
    const int               shown = std::min(total, std::max(frame.height - 2, 1));
    const auto              mask = static_cast<int>(std::find_if(lines.begin(), lines.end(), has_mask) - lines.begin());
    const int               top  = std::clamp(mask - shown / 2, 0, total - shown);

    std::string out;
    for (int i = top; i < top + shown; i++) {
        // cleared first: behind a full line the cursor still stands on its last character
        out += "\033[K" + styled(lines[static_cast<size_t>(i)], frame.color) + "\n";
    }
    std::vector<Glyph> status;
    add_glyphs(frame.status, std::vector<State>(frame.status.size(), State::masked), status);
    n_lines = shown + 1;
    return out + "\033[J" + styled(wrapped(status, width - 1)[0], frame.color);
}

std::string render_plain(const VisualFrame & frame) {
    std::string text;
    for (const Glyph & glyph : glyphs_of(frame, "_")) {
        text += glyph.text == "\n" ? "⏎" : glyph.text;
    }
    return frame.status + ": " + text;
}

Visual::Visual(const buoy::Vocab & vocab, int32_t mask_id, size_t first, int64_t total)
    : vocab_(vocab), end_ids_(vocab.end_ids()), mask_id_(mask_id), first_(first), total_(total),
      in_place_(isatty(STDERR_FILENO) != 0), begin_(std::chrono::steady_clock::now()) {
    if (in_place_) {
        set_cursor_hidden(true);
        print("\033[?25l");
    }
}

// Leaves nothing behind: the text comes on standard output.
Visual::~Visual() {
    if (in_place_) {
        print((n_lines_ > 1 ? "\033[" + std::to_string(n_lines_ - 1) + "A" : "") + "\r\033[J\033[?25h");
        set_cursor_hidden(false);
    }
}

VisualFrame Visual::make_frame(const buoy::StepReport & step, const std::vector<int32_t> & tokens) const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    VisualFrame                         frame;
    char                                status[128];
    std::snprintf(status, sizeof(status), "step %d · block %d · %lld/%lld tokens · %.1f tokens/s", step.step + 1,
                  step.block + 1, static_cast<long long>(done_), static_cast<long long>(total_),
                  static_cast<double>(done_) / elapsed.count());
    frame.status = status;
    for (size_t i = first_; i < tokens.size(); i++) {
        const bool is_fresh = std::find(fresh_.begin(), fresh_.end(), static_cast<int32_t>(i)) != fresh_.end();
        const bool is_mask  = tokens[i] == mask_id_;
        const bool is_end   = std::find(end_ids_.begin(), end_ids_.end(), tokens[i]) != end_ids_.end();
        frame.cells.push_back({is_mask  ? ""
                               : is_end ? "∎" // there may be many: an answer shorter than its room ends with them
                                        : vocab_.piece(tokens[i], true),
                               is_mask    ? State::masked
                               : is_fresh ? State::fresh
                                          : State::settled});
    }
    return frame;
}

void Visual::update(const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
    done_ += static_cast<int64_t>(step.committed.size());
    for (const auto & [position, id] : step.committed) {
        fresh_.push_back(position);
    }
    if (!in_place_) {
        print(render_plain(make_frame(step, tokens)) + "\n");
        fresh_.clear();
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - drawn_ < std::chrono::milliseconds(30)) {
        return;
    }
    const char * no_color = std::getenv("NO_COLOR");
    VisualFrame  frame    = make_frame(step, tokens);
    set_terminal_size(frame);
    frame.color              = no_color == nullptr || *no_color == '\0';
    const std::string before = n_lines_ > 1 ? "\033[" + std::to_string(n_lines_ - 1) + "A\r" : "\r";
    print(before + render(frame, n_lines_));
    drawn_ = now;
    fresh_.clear();
}
