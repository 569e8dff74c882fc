#include "base/fail.h"
#include "base/printable.h"
#include "buoy/version.h"
#include "file-commands.h"
#include "io/size-limit.h"
#include "metric-commands.h"
#include "report-command.h"
#include "run-main.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>

namespace {

constexpr const char * name = "llama-attention";

void run(int argc, char ** argv) {
    CLI::App app("Looks into recordings of attention (run.npz).", name);
    app.set_version_flag("--version", buoy::version());
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    std::function<void()> chosen;
    add_file_commands(app, chosen);
    add_metric_commands(app, chosen);
    add_report_command(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp &) {
        std::cout << app.help();
        return;
    } catch (const CLI::CallForVersion &) {
        std::cout << name << " " << buoy::version() << "\n";
        return;
    } catch (const CLI::ParseError & error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');
        buoy::fail(buoy::printable(text), " (--help lists the commands)");
    }
    chosen();
}

} // namespace

int main(int argc, char ** argv) {
    buoy::ignore_size_limit_signal();
    std::signal(SIGPIPE, SIG_IGN);
    return run_main(name, [&] {
        run(argc, argv);
        return 0;
    });
}
