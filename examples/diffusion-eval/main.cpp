#include "analysis/table.h"
#include "base/fail.h"
#include "base/printable.h"
#include "buoy/device.h"
#include "buoy/error.h"
#include "console.h"
#include "decode/generation-json.h"
#include "eval/attention-probe.h"
#include "eval/attention-summary.h"
#include "eval/figures.h"
#include "eval/run.h"
#include "eval/summary.h"
#include "interrupt.h"
#include "options.h"
#include "progress-line.h"
#include "run-main.h"

#include <algorithm>

namespace {

constexpr const char * program          = "llama-diffusion-eval";
constexpr int          exit_interrupted = 130;

void print_summary(const std::string & path, const Options & options) {
    const buoy::QaSummary                summary   = buoy::summarize(path);
    const std::vector<buoy::QaAttention> attention = buoy::summarize_attention(path);
    if (options.json) {
        nlohmann::ordered_json json = buoy::summary_json(summary);
        if (!attention.empty()) {
            json["attention"] = buoy::attention_json(attention);
        }
        print_text(buoy::json_line(json));
    } else if (options.csv) {
        print_text(buoy::analysis::to_csv(buoy::summary_csv(summary)));
    } else {
        std::vector<buoy::analysis::Table> tables = buoy::summary_tables(summary);
        std::string                        text;
        for (const buoy::analysis::Table & table : buoy::attention_tables(attention)) {
            tables.push_back(table);
        }
        for (const buoy::analysis::Table & table : tables) {
            text += (text.empty() ? "" : "\n") + buoy::analysis::to_text(table);
        }
        if (summary.n_results != summary.n_expected) {
            text += buoy::concat("\nnot complete: ", summary.n_results, " of ", summary.n_expected, " answers\n");
        }
        print_text(text);
    }
    if (!options.figures.empty()) {
        buoy::write_qa_figures(options.figures, buoy::qa_figures(summary, attention));
    }
}

int run_questions(const Options & options) {
    const Console         console(program, options.verbose, options.log_file);
    const buoy::QaDataset dataset = buoy::load_dataset(options.data);
    buoy::QaRun           run;
    run.conditions = buoy::make_conditions(options.plan);
    run.form       = options.form.empty() ? buoy::PromptTemplate::standard() : buoy::PromptTemplate::load(options.form);
    run.models     = buoy::name_models(options.models);
    run.model      = options.model;
    run.model.log  = [&](buoy::LogLevel level, const std::string & text) { console.log(level, text); };
    run.model.progress = [](float) { return !interrupted(); };
    run.context        = options.context;
    run.generate       = options.generate;
    run.ignore_eos     = options.ignore_eos;
    run.dataset        = &dataset;
    run.n_items        = options.n_items > 0 ? std::min(options.n_items, dataset.items.size()) : dataset.items.size();
    run.shard          = options.shard;
    run.n_shards       = options.n_shards;
    run.raw            = options.raw;
    run.stopped        = interrupted;
    if (run.n_shards > run.n_items) {
        buoy::fail("--shard: ", run.n_shards, " shards of ", run.n_items, " questions, expected at most one for each");
    }
    if (!options.figures.empty()) {
        buoy::make_figure_directory(options.figures); // not found out after hours
    }
    if (options.attn_metrics) {
        run.probe      = buoy::make_attention_probe;
        run.probe_name = "metrics";
    }
    run.output = options.output.empty() ? buoy::default_output(run) : options.output;
    if (options.output.empty()) {
        console.log(buoy::LogLevel::notice, "the answers are in " + buoy::printable(run.output));
    }
    bool complete = false;
    try {
        ProgressLine line;
        run.progress = [&](const buoy::QaProgress & progress) { line.update(progress); };
        complete     = buoy::run_qa(run);
    } catch (const buoy::Error &) {
        if (!interrupted()) { // while a model is loaded, Ctrl-C ends in an error
            throw;
        }
    }
    if (!complete) {
        console.log(buoy::LogLevel::notice, "stopped; the same command goes on from " + buoy::printable(run.output));
        return exit_interrupted;
    }
    print_summary(run.output, options);
    return 0;
}

int run(int argc, char ** argv) {
    Options options;
    if (!parse_options(argc, argv, options)) {
        return 0;
    }
    buoy::add_rpc_servers(options.rpc);
    if (options.list_devices) {
        print_devices();
        return 0;
    }
    switch (options.command) {
        case Command::qa: return run_questions(options);
        case Command::summary: print_summary(options.files[0], options); break;
        case Command::merge: buoy::merge_results(options.files, options.output, options.force); break;
    }
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    install_signal_handlers("llama-diffusion-eval: ");
    return run_main(program, [&] { return run(argc, argv); });
}
