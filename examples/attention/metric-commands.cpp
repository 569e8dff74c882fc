#include "metric-commands.h"

#include "analysis/studies.h"
#include "base/fail.h"
#include "base/printable.h"
#include "export-command.h"
#include "io/pending-file.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

namespace {

using namespace buoy;
using namespace buoy::analysis;

enum Flag : unsigned { layers = 1, step = 2, rule = 4, gold = 8, recall = 16, head = 32, seed = 64 };

struct MetricCommand {
    const char * name;
    const char * help;
    Findings (*study)(const StudyParams &);
    unsigned flags;
    int      paths_max; // 0: any number
};

const MetricCommand commands[] = {
    {"absorption", "share of the attention that anchors receive, by layer", study_absorption,
     Flag::layers | Flag::step | Flag::rule | Flag::seed, 0},
    {"temporal", "received attention by position and step", study_temporal, Flag::layers | Flag::step | Flag::rule, 0},
    {"floating", "how dispersed anchors are and how they move", study_floating, Flag::layers | Flag::rule | Flag::seed,
     0},
    {"sinks", "which tokens are sinks, what they are, and how they move", study_sinks,
     Flag::layers | Flag::rule | Flag::seed, 0},
    {"depth", "attention on structure against content, by layer", study_depth,
     Flag::layers | Flag::step | Flag::gold | Flag::seed, 0},
    {"qk", "anchors' advantage in q·k split into angle and norm; maps of one layer", study_qk,
     Flag::layers | Flag::step | Flag::rule | Flag::head | Flag::seed, 0},
    {"retrieval", "which heads copy from the gold span", study_retrieval, Flag::layers | Flag::gold | Flag::recall, 0},
    {"rollout", "flow of attention between regions", study_rollout, Flag::layers | Flag::step | Flag::gold, 0},
    {"compare", "how the patterns and anchors of two recordings differ", study_compare,
     Flag::layers | Flag::step | Flag::rule, 2},
};

struct Typed {
    StudyParams params;
    std::string layers, rule;
    int32_t     step = -1, head = -1;
    bool        json = false, csv = false;
    std::string svg, png, theme;
};

StudyParams finish(const Typed & typed) {
    StudyParams params = typed.params;
    if (!typed.layers.empty()) {
        params.layers = parse_index_ranges("--layers", typed.layers);
    }
    if (!typed.rule.empty()) {
        params.rule = parse_rule(typed.rule);
    }
    if (typed.step >= 0) {
        params.step = typed.step;
    }
    if (typed.head >= 0) {
        params.head = typed.head;
    }
    if (!params.labels.empty() && params.labels.size() != params.paths.size()) {
        fail("--label: ", params.labels.size(), " labels for ", params.paths.size(), " recordings");
    }
    if (typed.json && typed.csv) {
        fail("--json and --csv both want standard output");
    }
    for (const std::string & figure : {typed.svg, typed.png}) {
        for (const std::string & input : params.paths) {
            std::error_code not_there;
            if (!figure.empty() && std::filesystem::equivalent(figure, input, not_there)) {
                fail(printable(figure), ": the figure would replace a recording that it is drawn from");
            }
        }
        if (std::filesystem::path(figure).extension() == ".npz") {
            fail(printable(figure), ": a figure can't be written under a recording's name");
        }
    }
    std::error_code not_there;
    if (!typed.svg.empty() &&
        (typed.svg == typed.png || std::filesystem::equivalent(typed.svg, typed.png, not_there))) {
        fail(printable(typed.svg), ": --svg and --png name the same file");
    }
    return params;
}

void write_file(const std::string & path, const std::string & bytes) {
    PendingFile file(path, true);
    file.write(bytes.data(), bytes.size());
    file.commit();
}

void run(const MetricCommand & command, const Typed & typed) {
    const Findings findings = command.study(finish(typed));
    if (!typed.svg.empty()) {
        const std::map<std::string, figure::SvgTheme> themes = {
            {"", figure::SvgTheme::both}, {"light", figure::SvgTheme::light}, {"dark", figure::SvgTheme::dark}};
        write_file(typed.svg, figure::render_svg(findings.figure, themes.at(typed.theme)));
    }
    if (!typed.png.empty()) {
        write_file(typed.png, figure::render_png(findings.figure,
                                                 typed.theme == "dark" ? figure::Theme::dark : figure::Theme::light));
    }
    if (typed.json) {
        std::cout << findings.json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    } else if (typed.csv) {
        std::cout << to_csv(findings.data);
    } else {
        for (size_t i = 0; i < findings.tables.size(); i++) {
            std::cout << (i == 0 ? "" : "\n") << to_text(findings.tables[i]);
        }
    }
    for (const std::string & note : findings.notes) {
        std::cerr << "llama-attention: " << note << "\n";
    }
}

void add_flags(CLI::App & app, const MetricCommand & command, Typed & typed) {
    CLI::Option * paths =
        app.add_option("recordings", typed.params.paths, "what --attn-dump wrote")->required()->type_name("RUN.npz");
    if (command.paths_max > 0) {
        paths->expected(command.paths_max);
    }
    const auto has = [&](Flag flag) { return (command.flags & flag) != 0; };
    if (has(Flag::layers)) {
        app.add_option("--layers,--layer", typed.layers, "layers, such as 0,4-7 or 8- (default: all recorded)")
            ->type_name("LIST");
    }
    if (has(Flag::step)) {
        app.add_option("--step", typed.step, "the pattern as it stood after this step")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber);
    }
    if (has(Flag::rule)) {
        app.add_option("--rule", typed.rule,
                       "what an anchor is: auto, code, std[:EPSILON], above:AMOUNT, bos or top-k[:K]")
            ->type_name("RULE");
    }
    if (has(Flag::head)) {
        app.add_option("--head", typed.head, "maps of this head instead of the mean of all")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber);
    }
    if (has(Flag::gold)) {
        app.add_option("--gold", typed.params.gold, "region that holds the answer")
            ->type_name("NAME")
            ->capture_default_str();
    }
    if (has(Flag::recall)) {
        app.add_option("--min-recall", typed.params.min_recall, "leave out answers whose ROUGE-1 recall is not above")
            ->type_name("PERCENT")
            ->capture_default_str();
    }
    if (has(Flag::seed)) {
        app.add_option("--seed", typed.params.seed, "of the resampling for confidence intervals")
            ->type_name("N")
            ->capture_default_str();
    }
    app.add_option("--label", typed.params.labels,
                   "name to show instead of the model's, one for each recording; the same name groups them")
        ->type_name("NAME")
        ->allow_extra_args(false); // what follows is a recording
    app.add_flag("--json", typed.json, "print everything as JSON");
    app.add_flag("--csv", typed.csv, "print the numbers as CSV");
    app.add_option("--svg", typed.svg, "write the figure")->type_name("FILE");
    app.add_option("--png", typed.png, "write the figure")->type_name("FILE");
    app.add_option("--theme", typed.theme, "light or dark; an SVG has both unless told")
        ->check(CLI::IsMember({"light", "dark"}))
        ->type_name("NAME");
}

} // namespace

void add_metric_commands(CLI::App & app, std::function<void()> & chosen) {
    for (const MetricCommand & command : commands) {
        const auto typed = std::make_shared<Typed>();
        CLI::App * sub   = app.add_subcommand(command.name, command.help)->group("Metrics");
        add_flags(*sub, command, *typed);
        sub->callback([&command, &chosen, typed] { chosen = [&command, typed] { run(command, *typed); }; });
    }
    add_export_command(app, chosen);
}
