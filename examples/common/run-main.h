#pragma once

#include <functional>

// Runs a program's body and turns what it throws into one line on standard error and the exit code: 1 the request was wrong, 2 it
// failed while running.
int run_main(const char * program, const std::function<int()> & body);
