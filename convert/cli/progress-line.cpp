#include "progress-line.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace buoy {

std::string progress_text(const char * what, uint64_t done, uint64_t total, double seconds) {
    constexpr int WIDTH = 24;
    const double  share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const int     full  = static_cast<int>(share * WIDTH);
    const bool    bytes = std::string(what) == "writing"; // else chunks of text
    const double  rate  = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const auto    left  = static_cast<long>(rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0);
    const std::string bar(static_cast<size_t>(full), '#');
    const std::string rest(static_cast<size_t>(WIDTH - full), '.');

    char text[128];
    std::snprintf(text, sizeof(text), "%s [%s%s] %3d %%  %.*f %s/s  %ld:%02ld left", what, bar.c_str(), rest.c_str(),
                  static_cast<int>(share * 100), bytes ? 0 : 1, bytes ? rate / 1e6 : rate, bytes ? "MB" : "chunks",
                  left / 60, left % 60);
    return text;
}

void ProgressLine::update(uint64_t done, uint64_t total) {
    const Clock::time_point now = Clock::now();
    if (isatty(STDERR_FILENO) == 0 || (visible_ && now - shown_ < std::chrono::milliseconds(100) && done < total)) {
        return;
    }
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    std::fprintf(stderr, "\r%s\033[K", progress_text(what_, done, total, seconds).c_str());
    std::fflush(stderr);
    shown_   = now;
    visible_ = true;
}

void ProgressLine::clear() {
    if (visible_) {
        std::fprintf(stderr, "\r\033[K");
        visible_ = false;
    }
}

} // namespace buoy
