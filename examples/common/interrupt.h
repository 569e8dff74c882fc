#pragma once

// Ctrl-C and SIGTERM: the first one is a wish to end that the program sees here, the second one ends it at once with 130.
// name_and_colon: "program: ", what messages begin with.
void install_signal_handlers(const char * name_and_colon);

bool interrupted();
bool terminated(); // by SIGTERM, which means the whole program also in a chat
void clear_interrupt();

// Where the cursor is hidden, a second Ctrl-C shows it again.
void set_cursor_hidden(bool hidden);
