#pragma once

#include "program.h"

void add_convert_command(Program & program);
void add_calibrate_commands(Program & program); // imatrix, loss

// Runs what the library does, which Ctrl-C cancels: 130 then, else 0.
int run_cancellable(const std::function<void()> & work);
