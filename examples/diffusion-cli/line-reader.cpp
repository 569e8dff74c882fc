#include "line-reader.h"

#include "buoy/message.h"
#include "input-text.h"
#include "line-editor.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

// Not a stream: reading must end when Ctrl-C comes.
class PlainReader : public LineReader {
public:
    explicit PlainReader(bool on_terminal) : on_terminal_(on_terminal) {}

    Input next(const std::string & prompt, std::string & line) override {
        if (on_terminal_) {
            std::fputs(prompt.c_str(), stderr);
            std::fflush(stderr);
        }
        size_t n_searched = 0;
        while (true) {
            const size_t newline = held_.find('\n', n_searched);
            if (newline != std::string::npos) {
                line = held_.substr(0, newline);
                held_.erase(0, newline + 1);
                return Input::line;
            }
            if (held_.size() > line_length_max) {
                buoy::fail("standard input: a line of more than ", line_length_max >> 20, " MiB");
            }
            n_searched = held_.size();
            char          bytes[4096];
            const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
            if (n < 0 && errno == EINTR) {
                held_.clear();
                return Input::interrupted;
            }
            if (n < 0) {
                buoy::fail_runtime("standard input could not be read: ", std::strerror(errno));
            }
            if (n == 0) { // the last line may lack its newline
                line.swap(held_);
                held_.clear();
                return line.empty() ? Input::end : Input::line;
            }
            held_.append(bytes, static_cast<size_t>(n));
        }
    }

private:
    bool        on_terminal_;
    std::string held_;
};

} // namespace

std::unique_ptr<LineReader> make_line_reader(bool on_terminal, const std::string & history) {
    std::unique_ptr<LineReader> editor = on_terminal ? make_line_editor(history) : nullptr;
    return editor ? std::move(editor) : std::make_unique<PlainReader>(on_terminal);
}

std::string default_history() {
    const char * state = std::getenv("XDG_STATE_HOME");
    const char * home  = std::getenv("HOME");
    if (state != nullptr && state[0] == '/') { // others are to be ignored, says the specification
        return std::string(state) + "/buoy/chat-history";
    }
    return home != nullptr && *home != '\0' ? std::string(home) + "/.local/state/buoy/chat-history" : "";
}
