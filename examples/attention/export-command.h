#pragma once

#include <functional>

namespace CLI {
class App;
}

// Adds the subcommand that writes a recording in another form; when called it puts what is to be done into `chosen`.
void add_export_command(CLI::App & app, std::function<void()> & chosen);
