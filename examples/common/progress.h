#pragma once

#include <chrono>
#include <cstdint>
#include <string>

// A bar on stderr, only where somebody can see it. Clears itself when done.
class Progress {
public:
    explicit Progress(std::string title);
    ~Progress();

    void update(int64_t done, int64_t total);
    void update(float share); // 0 to 1

private:
    bool is_due(bool complete) const;
    void draw(double share, const std::string & text);

    std::string                           title_;
    bool                                  visible_;
    bool                                  drawn_ = false;
    std::chrono::steady_clock::time_point last_{};
};
