#pragma once

#include <functional>

namespace CLI {
class App;
}

// Adds a subcommand for each metric of recordings, and export. The one that was called puts what is to be done into `chosen`.
void add_metric_commands(CLI::App & app, std::function<void()> & chosen);
