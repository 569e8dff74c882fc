#include "console.h"

#include "buoy/printable.h"
#include "buoy/table.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

bool write_text(const std::string & text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

} // namespace

void print_text(const std::string & text) {
    if (!write_text(isatty(STDOUT_FILENO) != 0 ? buoy::printable_lines(text) : text)) {
        buoy::fail_runtime("cannot write to standard output");
    }
}

void print_line(const char * format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = std::vsnprintf(nullptr, 0, format, args);
    va_end(args);
    std::string text(static_cast<size_t>(std::max(n, 0)) + 1, '\0');
    std::vsnprintf(text.data(), text.size(), format, again);
    va_end(again);
    text.back() = '\n';
    print_text(text);
}

void print_note(const std::string & program, const std::string & message) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), buoy::printable(message).c_str());
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
        for (const std::string & line : buoy::analysis::wrap_words(buoy::printable(sentence), width - 2)) {
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
    log_colored(level, buoy::printable(flags_.in_flags(message)));
}

void Console::log_colored(buoy::LogLevel level, const std::string & text) const {
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
