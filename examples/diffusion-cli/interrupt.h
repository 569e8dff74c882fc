#pragma once

// Ctrl-C and SIGTERM: the first one is a wish to end that the program sees here, the second one ends it at once with 130.
void install_signal_handlers();

bool interrupted();
bool terminated(); // by SIGTERM, which means the whole program also in a chat
void clear_interrupt();

// Where the cursor is hidden, a second Ctrl-C shows it again.
void set_cursor_hidden(bool hidden);
