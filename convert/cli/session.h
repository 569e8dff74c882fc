#pragma once

#include "buoy/log.h"
#include "progress-line.h"

#include <CLI/CLI.hpp>

#include <functional>

namespace buoy {

// One run of the program: Ctrl-C, log and progress on stderr, exit codes.
class Session {
public:
    explicit Session(const char * what) : line_(what) {}

    // Parses, then works. 0 done, 1 the request was wrong, 2 it failed while running, 130 after Ctrl-C.
    int run(CLI::App & app, int argc, char ** argv, const std::function<void()> & work);

    // Callbacks for the library. They stay valid as long as the session.
    LogCallback                             log(const bool & verbose);
    std::function<bool(uint64_t, uint64_t)> progress();

private:
    ProgressLine line_;
};

} // namespace buoy
