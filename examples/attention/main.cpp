#include "commands.h"

#include "buoy/index-ranges.h"

Command & add_recording_command(Program & program, const std::string & name, const std::string & help,
                                std::vector<std::string> & target, int n_min, int n_max) {
    Command & command = program.add(name, help);
    command.flags.group("Input and output");
    Flag & paths       = command.flags.texts(n_max > 1 ? "recordings" : "recording", "RUN.npz", target, n_max,
                                       "recording made by llama-diffusion-cli --attn-dump");
    paths.n_values_min = n_min;
    paths.is_required();
    for (const char * what : {"layers", "heads", "steps", "rows", "taps", "reduce", "regions"}) {
        command.flags.elsewhere(std::string("record.") + what, std::string("--attn-") + what);
    }
    return command;
}

void add_layers_flag(FlagTable & table, buoy::IndexRanges & layers) {
    table
        .call(
            "--layers, --layer", "LIST",
            [&layers](const std::string & where, const std::string & text) {
                layers = buoy::parse_index_ranges(where, text);
            },
            "layers to use, such as 0,4-7 or 8-")
        .with_default("all recorded")
        .with_setting("layers");
}

int main(int argc, char ** argv) {
    Program program("llama-attention", "Analyses recorded attention (run.npz).", Program::Interrupt::at_once);
    program.group("Files");
    add_file_commands(program);
    add_export_command(program);
    add_report_command(program);
    program.group("Metrics");
    add_metric_commands(program);
    return program.main(argc, argv);
}
