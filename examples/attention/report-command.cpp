#include "report-command.h"

#include "base/printable.h"
#include "base/size.h"
#include "report/report.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

void add_report_command(CLI::App & app, std::function<void()> & chosen) {
    struct Typed {
        buoy::report::ReportParams params;
        std::string                max_size = "20M";
    };
    const auto typed = std::make_shared<Typed>();
    auto &     o     = typed->params;
    CLI::App * sub   = app.add_subcommand("report", "one page to explore a recording, or two side by side");
    sub->add_option("recordings", o.paths, "what --attn-dump wrote")->required()->expected(1, 2)->type_name("RUN.npz");
    sub->add_option("-o,--output", o.out, "page to write")->required()->type_name("FILE.html");
    sub->add_option("--label", o.labels, "name to show instead of the model's, one for each recording")
        ->type_name("NAME")
        ->allow_extra_args(false); // what follows is a recording
    sub->add_option("--max-size", typed->max_size, "most that the attention on the page may take, such as 500K or 80M")
        ->type_name("SIZE")
        ->capture_default_str();
    sub->add_flag("--force", o.force, "replace an existing file");
    sub->callback([&chosen, typed] {
        chosen = [typed] {
            typed->params.max_size = buoy::parse_size("--max-size", typed->max_size);
            for (const std::string & note : buoy::report::write_report(typed->params)) {
                std::cerr << "llama-attention: " << buoy::printable(note) << "\n";
            }
            std::cout << buoy::printable(typed->params.out) << "\n";
        };
    });
}
