#include "console.h"

#include "base/fail.h"
#include "base/printable.h"

#include <cerrno>
#include <cstring>

void print_text(const std::string & text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        buoy::fail_runtime("standard output could not be written");
    }
}

Console::Console(std::string program, bool verbose, const std::string & log_file)
    : program_(std::move(program)), verbose_(verbose) {
    if (!log_file.empty()) {
        file_.reset(std::fopen(log_file.c_str(), "w"));
        if (!file_) {
            buoy::fail("--log-file ", buoy::in_quotes(log_file), ": cannot open: ", std::strerror(errno));
        }
    }
}

void Console::log(buoy::LogLevel level, const std::string & text) const {
    const char * label = level == buoy::LogLevel::warn ? "warning: " : level == buoy::LogLevel::error ? "error: " : "";
    // an error ends the program with its own line, so what the libraries say on the way there is for the curious
    if (verbose_ || level == buoy::LogLevel::notice || level == buoy::LogLevel::warn) {
        std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), label, text.c_str());
    }
    if (file_) {
        std::fprintf(file_.get(), "%s%s\n", label, text.c_str());
        std::fflush(file_.get());
    }
}
