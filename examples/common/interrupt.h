#pragma once

#include <string>

// Ctrl-C and SIGTERM: where the program asks, the first one is a wish to end that it sees here, and the second one ends it at once
// with 130; else the first one does. name: of the program, for messages.
void install_signal_handlers(const std::string & name, bool asked);

bool interrupted();
bool terminated(); // by SIGTERM, which means the whole program also in a chat
void clear_interrupt();

// Where the cursor is hidden, a second Ctrl-C shows it again.
void set_cursor_hidden(bool hidden);

// While it lives, Ctrl-C on a terminal is answered at once: the program stops after this `unit` ("step"), a second one quits.
class StopsAfter {
public:
    explicit StopsAfter(const char * unit); // a literal
    ~StopsAfter();
    StopsAfter(const StopsAfter &)             = delete;
    StopsAfter & operator=(const StopsAfter &) = delete;
};
