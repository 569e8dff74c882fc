#include "export-command.h"

#include "analysis/export.h"

#include <CLI/CLI.hpp>

#include <memory>

void add_export_command(CLI::App & app, std::function<void()> & chosen) {
    struct Typed {
        buoy::analysis::ExportParams params;
        std::string                  layers;
    };
    const auto typed = std::make_shared<Typed>();
    auto &     o     = typed->params;
    CLI::App * sub   = app.add_subcommand("export", "write a recording in another form");
    sub->add_option("recording", o.path, "what --attn-dump wrote")->required()->type_name("RUN.npz");
    sub->add_option("-o,--output", o.out, "file to write")->required()->type_name("FILE");
    sub->add_option("--format", o.format, "neuir, npz, csv or bertviz")->required()->type_name("NAME");
    sub->add_option("--layers,--layer", typed->layers, "layers, such as 0,4-7 or 8- (default: all recorded)")
        ->type_name("LIST");
    sub->add_flag("--force", o.force, "replace an existing file");
    sub->callback([&chosen, typed] {
        chosen = [typed] {
            if (!typed->layers.empty()) {
                typed->params.layers = buoy::parse_index_ranges("--layers", typed->layers);
            }
            buoy::analysis::export_recording(typed->params);
        };
    });
}
