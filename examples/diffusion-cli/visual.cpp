#include "visual.h"

#include "buoy/message.h"
#include "interrupt.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

using buoy::figure::ScreenFrame;
using buoy::figure::ScreenLine;
using buoy::figure::ScreenSpan;
using buoy::figure::ScreenToken;
using buoy::figure::TokenState;

namespace {

std::string variable(const char * name) {
    const char * value = std::getenv(name);
    return value != nullptr ? value : "";
}

VisualSize terminal_size() {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        return {size.ws_col, size.ws_row};
    }
    return {};
}

bool has_mask(const ScreenLine & line) {
    return std::any_of(line.begin(), line.end(),
                       [](const ScreenSpan & span) { return span.state == TokenState::masked; });
}

int columns_of(const ScreenLine & line) {
    return std::accumulate(line.begin(), line.end(), 0,
                           [](int sum, const ScreenSpan & span) { return sum + span.columns; });
}

void print(const std::string & text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

} // namespace

ShownText::ShownText(const buoy::Vocab & vocab, int32_t mask_id, const std::vector<int32_t> & prompt, int32_t n_predict)
    : vocab_(vocab), end_ids_(vocab.end_ids()), mask_id_(mask_id) {
    const int64_t n_masked = std::count(prompt.begin(), prompt.end(), mask_id);
    first_                 = n_masked > 0 ? 0 : prompt.size();
    total_                 = n_masked + n_predict;
}

std::vector<ScreenToken> ShownText::tokens(const std::vector<int32_t> & sequence,
                                           const std::vector<int32_t> & fresh) const {
    std::vector<ScreenToken> out;
    for (size_t i = first_; i < sequence.size(); i++) {
        const int32_t id = sequence[i];
        if (id == mask_id_) {
            out.push_back({"", TokenState::masked});
            continue;
        }
        const bool is_fresh = std::find(fresh.begin(), fresh.end(), static_cast<int32_t>(i)) != fresh.end();
        const bool is_end   = std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
        // there may be many ends: an answer shorter than its room is filled with them
        out.push_back({is_end ? "∎" : vocab_.piece(id, true), is_fresh ? TokenState::fresh : TokenState::settled});
    }
    return out;
}

std::string ShownText::status(const buoy::StepReport & step, const std::vector<int32_t> & sequence) {
    for (const auto & [position, id] : step.committed) {
        n_done_ += id == mask_id_ ? -1 : 1;
    }
    if (mask_id_ < 0) { // canvases, every position of which holds something
        n_done_ = static_cast<int64_t>(sequence.size() - first_);
    }
    if (step.growth) { // its length is known now
        total_  = static_cast<int64_t>(sequence.size() - first_);
        n_done_ = total_ - std::count(sequence.begin(), sequence.end(), mask_id_);
    }
    return buoy::concat("step ", step.step + 1, " · block ", step.block + 1, " · ", n_done_, "/", total_, " tokens");
}

int visual_delay(std::optional<int32_t> asked, int64_t n_steps) {
    return asked ? *asked : static_cast<int>(std::clamp<int64_t>(6000 / std::max<int64_t>(n_steps, 1), 1, 150));
}

int Drawing::rows_above(const VisualSize & size) const {
    int rows = -1; // the cursor is in the last one
    for (const int line : columns) {
        rows += std::max(1, (line + size.columns - 1) / size.columns);
    }
    return std::clamp(rows, 0, size.rows - 1);
}

Drawing draw(const ScreenFrame & frame, const VisualSize & size, bool color) {
    const std::vector<ScreenLine> lines = screen_lines(frame.tokens, size.columns);
    const auto                    total = static_cast<int>(lines.size());
    const int                     shown = std::min(total, std::max(size.rows - 2, 1));
    const auto mask = static_cast<int>(std::find_if(lines.begin(), lines.end(), has_mask) - lines.begin());
    const int  top  = std::clamp(mask - shown / 2, 0, total - shown);

    Drawing out;
    for (int i = top; i < top + shown; i++) {
        const ScreenLine & line = lines[static_cast<size_t>(i)];
        // cleared first: behind a full line the cursor still stands on its last character
        out.text += "\033[K" + to_escapes(line, color) + "\n";
        out.columns.push_back(columns_of(line));
    }
    const ScreenLine status = buoy::figure::status_line(frame.status, size.columns - 1);
    out.text += "\033[J" + to_escapes(status, color);
    out.columns.push_back(columns_of(status));
    return out;
}

std::string draw_plain(const ScreenFrame & frame) {
    std::string text;
    for (const ScreenLine & line : screen_lines(frame.tokens, std::numeric_limits<int>::max())) {
        text += text.empty() ? "" : "⏎";
        for (const ScreenSpan & span : line) {
            text += span.state == TokenState::masked ? std::string(static_cast<size_t>(span.columns), '_') : span.text;
        }
    }
    return frame.status + ": " + text;
}

Visual::Visual(ShownText text, int delay_ms)
    : text_(std::move(text)), delay_ms_(delay_ms), in_place_(isatty(STDERR_FILENO) != 0 && variable("TERM") != "dumb"),
      color_(variable("NO_COLOR").empty()) {
    if (in_place_) {
        set_cursor_hidden(true);
        print("\033[?25l");
    }
}

Visual::~Visual() { finish(); }

void Visual::update(const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
    const auto before = Clock::now();
    wait_until_seen();
    waited_ms_ += std::chrono::duration<double, std::milli>(Clock::now() - before).count();

    for (const auto & [position, id] : step.committed) {
        fresh_.push_back(position);
    }
    for (int32_t & position : fresh_) {
        position = step.growth ? step.growth->moved(position) : position;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count() - waited_ms_ / 1000;
    char         rate[64];
    frame_.status = text_.status(step, tokens);
    std::snprintf(rate, sizeof(rate), " · %.1f tokens/s", static_cast<double>(text_.n_done()) / seconds);
    frame_.status += rate;
    frame_.tokens = text_.tokens(tokens, fresh_);
    if (!in_place_) {
        print(draw_plain(frame_) + "\n");
        fresh_.clear();
        return;
    }
    is_drawn_ = false;
    if (delay_ms_ > 0 || Clock::now() - drawn_at_ >= std::chrono::milliseconds(30)) {
        draw_in_place();
    }
}

void Visual::wait_until_seen() {
    while (in_place_ && !drawing_.columns.empty() && !interrupted()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            drawn_at_ + std::chrono::milliseconds(delay_ms_) - Clock::now());
        if (left.count() <= 0) {
            return;
        }
        poll(nullptr, 0, static_cast<int>(left.count())); // Ctrl-C ends it
    }
}

void Visual::erase() {
    if (drawing_.columns.empty()) {
        return;
    }
    const VisualSize size  = terminal_size();
    const int        above = drawing_.rows_above(size);
    print("\r" + (above > 0 ? "\033[" + std::to_string(above) + "A" : "") + (size == size_ ? "" : "\033[J"));
    drawing_ = {};
}

void Visual::draw_in_place() {
    if (interrupted() && !drawing_.columns.empty()) {
        print("\n"); // ^C or more stands behind the frame now: it stays, the next one begins below
        drawing_ = {};
    }
    erase();
    size_    = terminal_size();
    drawing_ = draw(frame_, size_, color_);
    print(drawing_.text);
    drawn_at_ = Clock::now();
    is_drawn_ = true;
    fresh_.clear();
}

void Visual::make_room() {
    if (in_place_) {
        if (!is_drawn_) {
            draw_in_place();
        }
        wait_until_seen();
        erase();
        print("\033[J");
    }
}

void Visual::finish() {
    if (!in_place_ || !is_open_) {
        return;
    }
    is_open_ = false;
    if (!is_drawn_) {
        draw_in_place();
    }
    if (drawing_.columns.empty() && !frame_.status.empty()) {
        print(to_escapes(buoy::figure::status_line(frame_.status, terminal_size().columns - 1), color_));
    }
    print(frame_.status.empty() ? "\033[?25h" : "\n\033[?25h");
    set_cursor_hidden(false);
}
