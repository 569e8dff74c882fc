#pragma once

#include <functional>

namespace CLI {
class App;
}

// Adds `info` and `cat`. The one that was called puts what is to be done into `chosen`.
void add_file_commands(CLI::App & app, std::function<void()> & chosen);
