#include "buoy/error.h"
#include "buoy/version.h"
#include "file-commands.h"
#include "io/printable.h"
#include "io/size-limit.h"
#include "io/standard-streams.h"
#include "metric-commands.h"
#include "report-command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>

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

int report(const std::string & text, int exit_code) {
    std::fprintf(stderr, "%s: %s\n", name, text.c_str());
    return exit_code;
}

} // namespace

int main(int argc, char ** argv) {
    buoy::fill_standard_streams();
    buoy::ignore_size_limit_signal();
    std::signal(SIGPIPE, SIG_IGN);
    try {
        run(argc, argv);
        if (!std::cout.flush()) {
            buoy::fail_runtime("standard output could not be written");
        }
        return 0;
    } catch (const buoy::Error & error) {
        return report(error.what(), error.kind() == buoy::ErrorKind::request ? 1 : 2);
    } catch (const std::bad_alloc &) {
        return report("out of memory", 2);
    } catch (const std::exception & error) {
        return report(buoy::printable(error.what()), 2);
    }
}
