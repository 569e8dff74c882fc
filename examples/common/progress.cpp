#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

Progress::Progress(std::string title) : title_(std::move(title)), visible_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
    if (drawn_) {
        std::fputs("\r\033[K", stderr);
    }
}

bool Progress::is_due(bool complete) const {
    return visible_ && (complete || std::chrono::steady_clock::now() - last_ >= std::chrono::milliseconds(50));
}

void Progress::draw(double share, const std::string & text) {
    constexpr int     width  = 30;
    const int         filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
    const std::string bar =
        std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(width - filled), '.');
    std::fprintf(stderr, "\r\033[K%s [%s] %s", title_.c_str(), bar.c_str(), text.c_str());
    std::fflush(stderr);
    last_  = std::chrono::steady_clock::now();
    drawn_ = true;
}

void Progress::update(int64_t done, int64_t total) {
    if (is_due(done >= total)) {
        draw(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0,
             std::to_string(done) + "/" + std::to_string(total));
    }
}

void Progress::update(float share) {
    if (is_due(share >= 1.0f)) {
        draw(static_cast<double>(share), std::to_string(static_cast<int>(share * 100.0f)) + " %");
    }
}
