#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace {

size_t terminal_columns() {
    winsize size = {};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

std::string progress_line(const std::string & title, double share, const std::string & text, size_t columns) {
    constexpr size_t width_max = 30, width_min = 5;
    const size_t     n_other =
        title.size() + text.size() + 5; // brackets, spaces, and the last column, where a line would wrap
    const size_t width = std::min(width_max, columns > n_other ? columns - n_other : 0);
    std::string  bar;
    if (width >= width_min) {
        const auto n_filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
        bar                 = " [" + std::string(n_filled, '#') + std::string(width - n_filled, '.') + "]";
    }
    return (title + bar + " " + text).substr(0, columns > 0 ? columns - 1 : 0);
}

Progress::Progress(std::string title, ProgressUnit unit, std::string program)
    : title_(std::move(title)), unit_(unit), program_(std::move(program)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
    if (drawn_ && terminal_) {
        std::fputs("\r\033[K", stderr);
        std::fflush(stderr);
    }
    drawn_ = false;
}

void Progress::restart(const std::string & title) {
    set_title(title);
    begin_ = Clock::now();
}

bool Progress::is_due(bool complete) const {
    if (terminal_) {
        return complete || !drawn_ || Clock::now() - last_ >= std::chrono::milliseconds(50);
    }
    return !program_.empty() && (complete || Clock::now() - last_ >= std::chrono::seconds(30));
}

std::string Progress::rate_text(int64_t n_new, int64_t n_left) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const double rate    = seconds > 0 ? static_cast<double>(n_new) / seconds : 0;
    const auto   left    = static_cast<long long>(rate > 0 ? static_cast<double>(n_left) / rate + 0.5 : 0);
    char         text[100];
    std::snprintf(text, sizeof(text), " %s, %.*f %s/s, %lld:%02lld:%02lld left", unit_.name, unit_.size > 1 ? 0 : 2,
                  rate / static_cast<double>(unit_.size), unit_.name, left / 3600, left / 60 % 60, left % 60);
    return text;
}

void Progress::draw(double share, const std::string & text) {
    if (terminal_) {
        std::fprintf(stderr, "\r\033[K%s", progress_line(title_, share, text, terminal_columns()).c_str());
    } else {
        std::fprintf(stderr, "%s: %s: %s\n", program_.c_str(), title_.c_str(), text.c_str());
    }
    std::fflush(stderr);
    last_  = Clock::now();
    drawn_ = true;
}

void Progress::update(int64_t n_done, int64_t n_all, int64_t n_before) {
    if (is_due(n_done >= n_all)) {
        const std::string count = std::to_string(n_done / unit_.size) + "/" + std::to_string(n_all / unit_.size);
        draw(n_all > 0 ? static_cast<double>(n_done) / static_cast<double>(n_all) : 0.0,
             count + (*unit_.name == '\0' ? "" : rate_text(n_done - n_before, n_all - n_done)));
    }
}

void Progress::update(float share) {
    if (is_due(share >= 1.0f)) {
        draw(static_cast<double>(share), std::to_string(static_cast<int>(share * 100.0f)) + " %");
    }
}
