#include "commands.h"

#include "buoy/export.h"
#include "buoy/parse.h"
#include "buoy/recording.h"
#include "buoy/report.h"
#include "console.h"

#include <iostream>
#include <memory>

namespace {

using buoy::analysis::ExportFormat;

constexpr buoy::Name<ExportFormat> format_names[] = {{"neuir", ExportFormat::neuir},
                                                     {"npz", ExportFormat::npz},
                                                     {"csv", ExportFormat::csv},
                                                     {"bertviz", ExportFormat::bertviz}};

struct Typed {
    std::vector<std::string> paths;
    std::string              member;
    int64_t                  index = -1;
    bool                     json  = false;
};

} // namespace

void add_file_commands(Program & program) {
    const auto typed = std::make_shared<Typed>();
    Command &  info  = add_recording_command(program, "info", "show what a recording contains", typed->paths, 1, 1);
    info.flags.toggle("--json", typed->json, true, "print JSON, including all of meta.json");
    info.run = [typed](const Command &) {
        print_text(typed->json ? buoy::analysis::recording_json(typed->paths[0])
                               : buoy::analysis::recording_text(typed->paths[0]));
        return 0;
    };

    Command & cat =
        add_recording_command(program, "cat", "print one member: an array as CSV, or meta.json", typed->paths, 1, 1);
    cat.flags.text("member", "MEMBER", typed->member, "name of the member, such as attn/step_0003/layer_05")
        .is_required();
    cat.flags
        .number("--index", "N", typed->index, {0, whole_max},
                "of a three-dimensional array, only the matrix at this index (a head); otherwise all of them, with the "
                "index at the start of each line")
        .with_default("")
        .with_setting("index");
    cat.run = [typed](const Command &) {
        buoy::analysis::write_member(typed->paths[0], typed->member, typed->index, std::cout); // numbers and JSON
        if (!std::cout.flush()) {
            buoy::fail_runtime("cannot write to standard output");
        }
        return 0;
    };
}

void add_export_command(Program & program) {
    struct Export {
        std::vector<std::string>     paths;
        buoy::analysis::ExportParams params;
    };
    const auto typed = std::make_shared<Export>();
    auto &     p     = typed->params;
    Command &  command =
        add_recording_command(program, "export", "convert a recording to another format", typed->paths, 1, 1);
    command.flags.text("-o, --output", "FILE", p.out, "file to write").is_required();
    command.flags.choice("--format", format_names, p.format, "output format").is_required();
    add_layers_flag(command.flags, p.layers);
    command.flags.toggle("--force", p.force, true, "overwrite an existing file").with_setting("force");
    command.run = [typed](const Command &) {
        typed->params.path = typed->paths[0];
        buoy::analysis::export_recording(typed->params);
        return 0;
    };
}

void add_report_command(Program & program) {
    const auto typed   = std::make_shared<buoy::report::ReportParams>();
    Command &  command = add_recording_command(
         program, "report", "write a page to explore a recording, or two side by side", typed->paths, 1, 2);
    command.flags.text("-o, --output", "FILE.html", typed->out, "page to write").is_required();
    command.flags
        .texts("--label", "NAME", typed->labels, 1, "name to show instead of the model's name, one per recording")
        .with_setting("labels");
    command.flags
        .call(
            "--max-size", "SIZE",
            [typed](const std::string & where, const std::string & text) {
                typed->max_size = buoy::parse_size(where, text);
            },
            "size limit for the attention data on the page, such as 500K or 80M")
        .with_default("20M")
        .with_setting("max_size");
    command.flags.toggle("--force", typed->force, true, "overwrite an existing file").with_setting("force");
    command.run = [typed](const Command & itself) {
        typed->wording = [&itself](const std::string & message) { return itself.flags.in_flags(message); };
        for (const std::string & note : buoy::report::write_report(*typed)) {
            print_note("llama-attention", note);
        }
        print_text(typed->out + "\n");
        return 0;
    };
}
