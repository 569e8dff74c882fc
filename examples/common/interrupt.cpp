#include "interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace {

// A handler reaches nothing but globals.
volatile std::sig_atomic_t n_signals     = 0;
volatile std::sig_atomic_t term_seen     = 0;
volatile std::sig_atomic_t cursor_hidden = 0;
volatile std::sig_atomic_t on_terminal   = 0; // standard error

std::atomic<const char *> stops_after = nullptr; // what is finished first
static_assert(std::atomic<const char *>::is_always_lock_free);

char program[64] = ""; // with a colon, for messages

void write_text(const char * text) {
    const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
    static_cast<void>(ignored);
}

// So that nobody wonders during a long step whether Ctrl-C was noticed. A picture that is redrawn in place gets no new line.
void answer_interrupt() {
    const char * unit = stops_after;
    if (unit == nullptr || on_terminal == 0) {
        return;
    }
    write_text(cursor_hidden != 0 ? "\r\033[K" : "\r\033[K\n");
    write_text("stopping after this ");
    write_text(unit);
    write_text(cursor_hidden != 0 ? "" : "; press Ctrl-C again to quit\n");
}

void on_interrupt(int signal) {
    if (n_signals != 0) {
        if (cursor_hidden != 0) {
            write_text("\033[?25h\n");
        }
        _exit(130);
    }
    n_signals = 1;
    if (signal == SIGTERM) {
        term_seen = 1;
    } else {
        answer_interrupt();
    }
}

// A mapped file that shrinks, or a disk that fails, is noticed in the middle of a computation: no way back from there.
void on_bus_error(int) {
    static std::atomic_flag said = ATOMIC_FLAG_INIT; // every thread of the computation may come here
    while (said.test_and_set()) {
        pause();
    }
    write_text(program);
    write_text("the model file shrank or could not be read while it was in use\n");
    _exit(2);
}

void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler       = handler;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr); // without SA_RESTART: a chat waiting for input must notice
}

} // namespace

void install_signal_handlers(const std::string & name, bool asked) {
    std::snprintf(program, sizeof(program), "%s: ", name.c_str());
    n_signals   = asked ? 0 : 1;
    on_terminal = isatty(STDERR_FILENO) != 0 ? 1 : 0;
    handle(SIGINT, on_interrupt);
    handle(SIGTERM, on_interrupt);
    handle(SIGBUS, on_bus_error);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN); // where a limit on file sizes is met, writing fails and says so
}

bool interrupted() { return n_signals != 0; }

bool terminated() { return term_seen != 0; }

void clear_interrupt() { n_signals = 0; }

void set_cursor_hidden(bool hidden) { cursor_hidden = hidden ? 1 : 0; }

StopsAfter::StopsAfter(const char * unit) { stops_after = unit; }

StopsAfter::~StopsAfter() { stops_after = nullptr; }
