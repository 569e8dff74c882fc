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
#include "params.h"
#include "progress-line.h"
#include "run-main.h"

#include <algorithm>

namespace {

constexpr const char * program          = "llama-diffusion-eval";
constexpr int          exit_interrupted = 130;

void print_summary(const std::string & path, const EvalParams & params) {
    const buoy::QaSummary                summary   = buoy::summarize(path);
    const std::vector<buoy::QaAttention> attention = buoy::summarize_attention(path);
    if (params.json) {
        nlohmann::ordered_json json = buoy::summary_json(summary);
        if (!attention.empty()) {
            json["attention"] = buoy::attention_json(attention);
        }
        print_text(buoy::json_line(json));
    } else if (params.csv) {
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
    if (!params.figures.empty()) {
        buoy::write_qa_figures(params.figures, buoy::qa_figures(summary, attention));
    }
}

int run_questions(const EvalParams & params) {
    const Console         console(program, params.verbose, params.log_file);
    const buoy::QaDataset dataset = buoy::load_dataset(params.data);
    buoy::QaRun           run;
    run.conditions = buoy::make_conditions(params.plan);
    run.form       = params.form.empty() ? buoy::PromptTemplate::standard() : buoy::PromptTemplate::load(params.form);
    run.models     = buoy::name_models(params.models);
    run.model      = params.model;
    run.model.log  = [&](buoy::LogLevel level, const std::string & text) { console.log(level, text); };
    run.model.progress = [](float) { return !interrupted(); };
    run.context        = params.context;
    run.generate       = params.generate;
    run.ignore_eos     = params.ignore_eos;
    run.dataset        = &dataset;
    run.n_items        = params.n_items > 0 ? std::min(params.n_items, dataset.items.size()) : dataset.items.size();
    run.shard          = params.shard;
    run.n_shards       = params.n_shards;
    run.raw            = params.raw;
    run.stopped        = interrupted;
    if (run.n_shards > run.n_items) {
        buoy::fail("--shard: ", run.n_shards, " shards of ", run.n_items, " questions, expected at most one for each");
    }
    if (!params.figures.empty()) {
        buoy::make_figure_directory(params.figures); // not found out after hours
    }
    if (params.attn_metrics) {
        run.probe      = buoy::make_attention_probe;
        run.probe_name = "metrics";
    }
    run.output = params.output.empty() ? buoy::default_output(run) : params.output;
    if (params.output.empty()) {
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
    print_summary(run.output, params);
    return 0;
}

int run(int argc, char ** argv) {
    EvalParams params;
    if (!parse_params(argc, argv, params)) {
        return 0;
    }
    buoy::add_rpc_servers(params.rpc);
    if (params.list_devices) {
        print_devices();
        return 0;
    }
    switch (params.command) {
        case Command::qa: return run_questions(params);
        case Command::summary: print_summary(params.files[0], params); break;
        case Command::merge: buoy::merge_results(params.files, params.output, params.force); break;
    }
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    install_signal_handlers("llama-diffusion-eval: ");
    return run_main(program, [&] { return run(argc, argv); });
}
