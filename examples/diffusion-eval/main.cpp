#include "buoy/device.h"
#include "buoy/eval.h"
#include "buoy/frontier.h"
#include "console.h"
#include "interrupt.h"
#include "params.h"
#include "program.h"
#include "progress.h"

#include <memory>

namespace {

constexpr const char * name = "llama-diffusion-eval";

void check_report(const EvalParams & params) {
    if (params.json && params.csv) {
        buoy::fail("--json and --csv both print to standard output; use only one of them");
    }
}

void print_report(const std::string & path, const EvalParams & params) {
    const buoy::QaReport report = buoy::report_results(path);
    if (params.json) {
        print_text(report.json);
    } else if (params.csv) {
        print_text(buoy::analysis::to_csv(report.data));
    } else {
        std::string  text;
        const size_t width = output_width();
        for (const buoy::analysis::Table & table : report.tables) {
            text += (text.empty() ? "" : "\n") + buoy::analysis::to_text(table, width);
        }
        text += conclusions_text(report.conclusions, width);
        if (report.n_results != report.n_expected) {
            text += buoy::concat("\nincomplete: ", report.n_results, " of ", report.n_expected, " answers\n");
        }
        print_text(text);
    }
    if (!params.figures.empty()) {
        buoy::write_qa_figures(params.figures, report.figures);
    }
}

int run_questions(const EvalParams & params, const Console & console) {
    Progress       line("", {"answers"}, name);
    buoy::QaParams qa = params.qa;
    qa.model          = params.model;
    qa.model.log      = console.callback();
    qa.model.progress = [](float) { return !interrupted(); };
    qa.context        = params.context;
    qa.generate       = params.generate;
    qa.ignore_eos     = params.ignore_eos;
    qa.output         = params.output;
    qa.stopped        = interrupted;
    qa.progress       = [&](const buoy::QaProgress & progress) {
        line.set_title(progress.model);
        line.update(static_cast<int64_t>(progress.n_done), static_cast<int64_t>(progress.n_all),
                          static_cast<int64_t>(progress.n_resumed));
    };
    buoy::Evaluation evaluation(qa);
    if (!params.figures.empty()) {
        buoy::make_figure_directory(params.figures); // not found out after hours
    }
    if (params.output.empty()) {
        console.log(buoy::LogLevel::notice, "writing the answers to " + buoy::printable(evaluation.output()));
    }
    const StopsAfter stops("answer");
    bool             complete = false;
    try {
        complete = evaluation.run();
    } catch (const buoy::Error &) {
        if (!interrupted()) { // while a model is loaded, Ctrl-C ends in an error
            throw;
        }
    }
    line.clear();
    if (!complete) {
        console.log(buoy::LogLevel::notice,
                    "stopped; run the same command again to resume from " + buoy::printable(evaluation.output()));
        return exit_interrupted;
    }
    print_report(evaluation.output(), params);
    return 0;
}

int qa(const Command & command, EvalParams & params) {
    check_report(params);
    settle_questions(params);
    buoy::add_rpc_servers(params.rpc);
    if (params.list_devices) {
        print_devices();
        return 0;
    }
    return run_questions(params, Console(name, command.flags, params.verbose, params.log_file));
}

// "NAME: SETTINGS"
buoy::FrontierMethod parse_method(const std::string & text) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos || colon == 0) {
        buoy::fail("--method: ", buoy::in_quotes(text), " is not NAME: SETTING=VALUE…");
    }
    const size_t first = text.find_first_not_of(' ', colon + 1);
    return {text.substr(0, colon), first == std::string::npos ? "" : text.substr(first)};
}

int frontier(const Command & command, EvalParams & params) {
    check_report(params);
    if (params.model_path.empty() || params.qa.data.empty()) {
        buoy::fail("frontier needs -m MODEL and -d DATA.jsonl");
    }
    params.seed = params.seed < 0 ? 1 : params.seed;
    settle(params);
    buoy::add_rpc_servers(params.rpc);
    const Console        console(name, command.flags, params.verbose, params.log_file);
    Progress             line("", {"answers"}, name);
    buoy::FrontierParams run;
    run.model            = resolve_model(params.model_path);
    run.model_params     = params.model;
    run.model_params.log = console.callback();
    run.context          = params.context;
    run.generate         = params.generate;
    run.data             = params.qa.data;
    run.n_items          = params.qa.n_items;
    run.n_passages       = params.n_passages;
    run.form             = params.qa.form;
    run.output           = params.output;
    run.stopped          = interrupted;
    run.begins           = [&](const buoy::FrontierMethod & method) { line.restart(method.name); };
    run.progress         = [&](size_t n_done, size_t n_all) {
        line.update(static_cast<int64_t>(n_done), static_cast<int64_t>(n_all), 0);
    };
    if (!params.methods.empty()) {
        run.methods = {{"exact", ""}};
        for (const std::string & text : params.methods) {
            run.methods.push_back(parse_method(text));
        }
    }
    if (!params.figures.empty()) {
        buoy::make_figure_directory(params.figures);
    }
    const StopsAfter           stops("answer");
    const buoy::FrontierReport report = buoy::measure_frontier(run);
    line.clear();
    for (const std::string & reason : report.left_out) {
        console.log(buoy::LogLevel::notice, "left out: " + reason);
    }
    print_text(params.json  ? report.json
               : params.csv ? buoy::analysis::to_csv(report.table)
                            : buoy::analysis::to_text(report.table, output_width()));
    if (!params.figures.empty() && report.complete) {
        buoy::write_qa_figures(params.figures, {report.figure});
    }
    if (!report.complete) {
        console.log(buoy::LogLevel::notice, "stopped; run the same command again to measure the other methods");
        return exit_interrupted;
    }
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    Program program(name, "Asks models questions, with and without passages in the prompt, and scores their answers.",
                    Program::Interrupt::asked);
    program.usage = "  llama-diffusion-eval qa -m MODEL[,MODEL...] -d DATA.jsonl -o RESULTS.jsonl [flags]\n"
                    "  llama-diffusion-eval summary RESULTS.jsonl [--json | --csv] [--figures DIR]\n"
                    "  llama-diffusion-eval merge RESULTS.jsonl... -o MERGED.jsonl\n"
                    "  llama-diffusion-eval frontier -m MODEL -d DATA.jsonl [-o MEASURED.jsonl] [flags]\n";
    program.notes = "(run the same command again to resume).";

    const auto params = std::make_shared<EvalParams>();
    Command &  ask    = program.add("qa", "ask questions and score the answers");
    add_qa_flags(ask.flags, *params);
    ask.run = [params](const Command & itself) { return qa(itself, *params); };

    Command & summary = program.add("summary", "show the scores in a result file");
    add_summary_flags(summary.flags, *params);
    summary.run = [params](const Command &) {
        check_report(*params);
        if (params->files.size() != 1) {
            buoy::fail("summary needs exactly one result file");
        }
        print_report(params->files[0], *params);
        return 0;
    };

    Command & merge = program.add("merge", "combine the result files of shards");
    add_merge_flags(merge.flags, *params);
    merge.run = [params](const Command &) {
        if (params->files.empty() || params->output.empty()) {
            buoy::fail("merge needs the result files and -o OUTPUT");
        }
        buoy::merge_results(params->files, params->output, params->force);
        return 0;
    };

    Command & compare = program.add("frontier", "measure what ways of decoding cost and what they lose");
    add_frontier_flags(compare.flags, *params);
    compare.run = [params](const Command & itself) { return frontier(itself, *params); };
    return program.main(argc, argv);
}
