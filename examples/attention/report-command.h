#pragma once

#include <functional>

namespace CLI {
class App;
}

// Adds the subcommand that makes a page of one or two recordings; when called it puts what is to be done into `chosen`.
void add_report_command(CLI::App & app, std::function<void()> & chosen);
