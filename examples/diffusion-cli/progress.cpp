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

void Progress::update(int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!visible_ || (done < total && now - last_ < std::chrono::milliseconds(50))) {
        return;
    }
    constexpr int64_t width  = 30;
    const int64_t     filled = total > 0 ? std::min(done, total) * width / total : 0;
    const std::string bar =
        std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(width - filled), '.');
    std::fprintf(stderr, "\r\033[K%s [%s] %lld/%lld", title_.c_str(), bar.c_str(), static_cast<long long>(done),
                 static_cast<long long>(total));
    std::fflush(stderr);
    last_  = now;
    drawn_ = true;
}
