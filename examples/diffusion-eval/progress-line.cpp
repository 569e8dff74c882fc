#include "progress-line.h"

#include <cstdio>
#include <unistd.h>

namespace {

std::string duration_text(double seconds) {
    const auto whole = static_cast<long long>(seconds + 0.5);
    char       text[40];
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    return text;
}

} // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
    if (drawn_ && terminal_) {
        std::fputs("\r\033[K", stderr);
    }
}

void ProgressLine::update(const buoy::QaProgress & progress) {
    const Clock::time_point now  = Clock::now();
    const bool              done = progress.n_done == progress.n_all;
    if (!done && now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(30000))) {
        return;
    }
    const double      seconds = std::chrono::duration<double>(now - begin_).count();
    const auto        n_new   = static_cast<double>(progress.n_done - progress.n_resumed);
    const double      rate    = seconds > 0 ? n_new / seconds : 0;
    const double      left    = rate > 0 ? static_cast<double>(progress.n_all - progress.n_done) / rate : 0;
    const std::string begin   = terminal_ ? "\r\033[K" : "llama-diffusion-eval: ";
    std::fprintf(stderr, "%s%s: %zu of %zu answers, %.2f/s, %s left%s", begin.c_str(), progress.model.c_str(),
                 progress.n_done, progress.n_all, rate, duration_text(left).c_str(), terminal_ ? "" : "\n");
    std::fflush(stderr);
    last_  = now;
    drawn_ = true;
}
