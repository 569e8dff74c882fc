#pragma once

#include "buoy/message.h"

#include <chrono>
#include <cstdint>
#include <string>

// What is counted. Without a name, how fast it goes is not told.
struct ProgressUnit {
    const char * name = ""; // "MB"
    int64_t      size = 1;  // 1000000
};

// "loading [####..........] 30 %" in less than a terminal's columns, so that it can be drawn over; without the bar where there is no
// room for it.
std::string progress_line(const std::string & title, double share, const std::string & text, size_t columns);

// How far something is: a bar on stderr that is drawn over on a terminal and clears itself when done. Elsewhere nothing; or, with the
// program's name for a run of hours, a line every half minute.
class Progress {
public:
    explicit Progress(std::string title, ProgressUnit unit = {}, std::string program = "");
    ~Progress();
    Progress(const Progress &)             = delete;
    Progress & operator=(const Progress &) = delete;

    // n_before: of those done, what an earlier run did
    void update(int64_t n_done, int64_t n_all, int64_t n_before = 0);
    void update(float share); // 0 to 1

    void clear();

    void set_title(const std::string & title) { title_ = buoy::printable(title, 200); }
    void restart(const std::string & title); // something else is counted from here on, with a rate of its own

private:
    using Clock = std::chrono::steady_clock;

    bool        is_due(bool complete) const;
    std::string rate_text(int64_t n_new, int64_t n_left) const;
    void        draw(double share, const std::string & text);

    std::string       title_;
    ProgressUnit      unit_;
    std::string       program_;
    bool              terminal_;
    bool              drawn_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point last_  = begin_;
};
