#include "console.h"

#include "buoy/table.h"

#include <cerrno>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

void print_text(const std::string & text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        buoy::fail_runtime("cannot write to standard output");
    }
}

size_t output_width() {
    winsize    size{};
    const bool known = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

std::string conclusions_text(const std::vector<std::string> & conclusions, size_t width) {
    std::string out;
    for (const std::string & sentence : conclusions) {
        out += out.empty() ? "\n" : "";
        const char * before = "→ ";
        for (const std::string & line : buoy::analysis::wrap_words(sentence, width - 2)) {
            out += before + line + "\n";
            before = "  ";
        }
    }
    return out;
}

Console::Console(std::string program, const FlagTable & flags, bool verbose, const std::string & log_file)
    : program_(std::move(program)), flags_(flags), verbose_(verbose) {
    if (!log_file.empty()) {
        file_.reset(std::fopen(log_file.c_str(), "w"));
        if (!file_) {
            buoy::fail("--log-file ", buoy::in_quotes(log_file), ": cannot open: ", std::strerror(errno));
        }
    }
}

void Console::log(buoy::LogLevel level, const std::string & message) const {
    const std::string text = flags_.in_flags(message);
    const char * label = level == buoy::LogLevel::warn ? "warning: " : level == buoy::LogLevel::error ? "error: " : "";
    // an error ends the program with its own line, so what the libraries say on the way there is for the curious
    if (verbose_ || level == buoy::LogLevel::notice || level == buoy::LogLevel::warn) {
        const char * clear = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : ""; // a bar may stand there
        std::fprintf(stderr, "%s%s: %s%s\n", clear, program_.c_str(), label, text.c_str());
    }
    if (file_) {
        std::fprintf(file_.get(), "%s%s\n", label, text.c_str());
        std::fflush(file_.get());
    }
}
