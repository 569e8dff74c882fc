#include "session.h"

#include "buoy/error.h"
#include "io/size-limit.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <unistd.h>

namespace buoy {

namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
    if (interrupted != 0) {
        _exit(130); // the second one at once; the temporary's name shows what it is
    }
    interrupted = 1;
}

} // namespace

int Session::run(CLI::App & app, int argc, char ** argv, const std::function<void()> & work) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError & e) {
        if (e.get_exit_code() == 0) {
            return app.exit(e); // --help
        }
        std::fprintf(stderr, "error: %s (--help lists the flags)\n", e.what());
        return 1;
    }
    ignore_size_limit_signal();
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    try {
        work();
        line_.clear();
        return 0;
    } catch (const Error & e) {
        line_.clear();
        std::fprintf(stderr, "error: %s\n", e.what());
        return interrupted != 0 ? 130 : e.kind() == ErrorKind::request ? 1 : 2;
    } catch (const std::exception & e) { // memory, threads
        line_.clear();
        std::fprintf(stderr, "error: %s\n", e.what());
        return 2;
    }
}

LogCallback Session::log(const bool & verbose) {
    return [this, &verbose](LogLevel level, const std::string & message) {
        if (verbose || level == LogLevel::warn || level == LogLevel::error) {
            line_.clear();
            std::fprintf(stderr, "%s%s\n", level == LogLevel::warn ? "warning: " : "", message.c_str());
        }
    };
}

std::function<bool(uint64_t, uint64_t)> Session::progress() {
    return [this](uint64_t done, uint64_t total) {
        line_.update(done, total);
        return interrupted == 0;
    };
}

} // namespace buoy
