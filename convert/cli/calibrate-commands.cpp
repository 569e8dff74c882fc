#include "commands.h"

#include "calibrate.h"
#include "console.h"
#include "interrupt.h"
#include "progress.h"
#include "run-flags.h"

#include <memory>

namespace {

struct Typed {
    buoy::CalibrateParams params;
    bool                  verbose = false;
};

void add_flags(FlagTable & table, buoy::CalibrateParams & p) {
    table.group("Input and output");
    table
        .call(
            "-m, --model", "FILE",
            [&p](const std::string &, const std::string & name) { p.model = resolve_model(name); },
            "GGUF file, or the name of a bundled model: buoy-mdm, buoy-arm")
        .is_required();
    table
        .text("-f, --file", "FILE", p.text,
              "text to run the model on; in a .jsonl file of {\"prompt\", \"answer\"}, only answers are masked")
        .is_required();
    table.number("-c, --chunk", "N", p.n_chunk, {2, 1 << 20}, "tokens per chunk, at most the model's context length");
    table.number("--chunks", "N", p.n_max, {0, whole_max}, "maximum number of chunks; 0: all");
    table.number("-s, --seed", "N", p.seed, {0, 9e18}, "random seed, which decides what is masked");
    add_threads_flag(table, p.n_threads);
}

int calibrate(Typed & typed, const Command & command, const char * title, const std::function<void()> & work) {
    const Console console("llama-diffusion-convert", command.flags, typed.verbose);
    Progress      line(title, {"chunks"});
    typed.params.log      = console.callback();
    typed.params.progress = [&](uint64_t done, uint64_t total) {
        line.update(static_cast<int64_t>(done), static_cast<int64_t>(total));
        return !interrupted();
    };
    const StopsAfter stops("chunk");
    return run_cancellable(work);
}

void add_imatrix_command(Program & program) {
    const auto typed   = std::make_shared<Typed>();
    Command &  command = program.add("imatrix", "collect an importance matrix from a text with randomly masked tokens");
    FlagTable & table  = command.flags;
    add_flags(table, typed->params);
    table.text("-o, --output", "FILE", typed->params.output, "file to write, in llama.cpp's GGUF format").is_required();
    table.toggle("--force", typed->params.force, true, "overwrite an existing file").with_setting("force");
    table.toggle("-v, --verbose", typed->verbose, true, "log details");
    command.run = [typed](const Command & itself) {
        return calibrate(*typed, itself, "collecting", [&] {
            const buoy::ImatrixReport report = buoy::make_imatrix(typed->params);
            print_line("%zu tensors, %u chunks, %llu tokens", report.n_tensors, report.n_chunks,
                       static_cast<unsigned long long>(report.n_tokens));
        });
    };
}

void add_loss_command(Program & program) {
    const auto typed   = std::make_shared<Typed>();
    Command &  command = program.add("loss", "measure the cross-entropy of randomly masked tokens in a text");
    add_flags(command.flags, typed->params);
    command.flags.toggle("-v, --verbose", typed->verbose, true, "log details");
    command.run = [typed](const Command & itself) {
        return calibrate(*typed, itself, "measuring", [&] {
            const buoy::LossReport report = buoy::measure_loss(typed->params);
            print_line("%.4f +- %.4f nats over %llu predicted tokens", report.loss, report.error,
                       static_cast<unsigned long long>(report.n_hidden));
        });
    };
}

} // namespace

int run_cancellable(const std::function<void()> & work) {
    try {
        work();
    } catch (const buoy::Error &) {
        if (!interrupted()) {
            throw;
        }
        return exit_interrupted;
    }
    return 0;
}

void add_calibrate_commands(Program & program) {
    add_imatrix_command(program);
    add_loss_command(program);
}
