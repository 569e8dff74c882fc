#include "commands.h"
#include "console.h"

#include "buoy/files.h"
#include "buoy/study.h"

#include <filesystem>
#include <memory>

namespace {

using namespace buoy;
using namespace buoy::analysis;

constexpr Name<figure::Theme> theme_names[] = {{"light", figure::Theme::light}, {"dark", figure::Theme::dark}};

struct Typed {
    StudyParams                  params;
    bool                         json = false, csv = false;
    std::string                  svg, png;
    std::optional<figure::Theme> theme;
};

bool same_file(const std::string & a, const std::string & b) {
    std::error_code not_there;
    return a == b || std::filesystem::equivalent(a, b, not_there);
}

void check(const Typed & typed) {
    if (typed.json && typed.csv) {
        fail("--json and --csv both print to standard output; use only one of them");
    }
    for (const std::string & figure : {typed.svg, typed.png}) {
        for (const std::string & input : typed.params.paths) {
            if (!figure.empty() && same_file(figure, input)) {
                fail(printable(figure), ": the figure would overwrite a recording it is drawn from");
            }
        }
        if (std::filesystem::path(figure).extension() == ".npz") {
            fail(printable(figure), ": a figure cannot have the name of a recording");
        }
    }
    if (!typed.svg.empty() && same_file(typed.svg, typed.png)) {
        fail(printable(typed.svg), ": --svg and --png name the same file");
    }
}

int run(const Command & command, const Typed & typed) {
    check(typed);
    const StudyResult found = study(command.name, typed.params);
    if (!typed.svg.empty()) {
        const figure::SvgTheme theme = !typed.theme                           ? figure::SvgTheme::both
                                       : *typed.theme == figure::Theme::light ? figure::SvgTheme::light
                                                                              : figure::SvgTheme::dark;
        write_file(typed.svg, figure::render_svg(found.figure, theme), true);
    }
    if (!typed.png.empty()) {
        write_file(typed.png, figure::render_png(found.figure, typed.theme.value_or(figure::Theme::light)), true);
    }
    if (typed.json) {
        print_text(found.json + "\n");
    } else if (typed.csv) {
        print_text(to_csv(found.data));
    } else {
        const size_t width = output_width();
        std::string  text;
        for (size_t i = 0; i < found.tables.size(); i++) {
            text += (i == 0 ? "" : "\n") + to_text(found.tables[i], width);
        }
        print_text(text + conclusions_text(found.conclusions, width));
    }
    for (size_t i = 0; i < found.notes.size() && !typed.json; i++) { // the JSON has them
        print_note("llama-attention", command.flags.in_flags(found.notes[i]));
    }
    return 0;
}

// Those that the metric heeds.
void add_study_flags(FlagTable & table, const StudyMetric & metric, StudyParams & params) {
    if (metric.layers) {
        add_layers_flag(table, params.layers);
    }
    if (metric.step) {
        table.number("--step", "N", params.step, {0, whole_max}, "use the pattern after this step")
            .with_setting("step");
    }
    if (metric.rule) {
        table
            .call(
                "--rule", "RULE",
                [&params](const std::string &, const std::string & text) { params.rule = parse_rule(text); },
                "what an anchor is: std[:EPSILON], above:AMOUNT, code, bos, top-k[:K] or auto (docs/metrics.md)")
            .with_values({"std", "code", "bos", "top-k", "auto"})
            .with_default("std:3")
            .with_setting("rule");
    }
    if (metric.head) {
        table.number("--head", "N", params.head, {0, whole_max}, "show this head instead of the mean over all heads")
            .with_setting("head");
    }
    if (metric.gold) {
        table.text("--gold", "NAME", params.gold, "region that contains the answer")
            .with_default(params.gold)
            .with_setting("gold");
    }
    if (metric.min_recall) {
        table.number("--min-recall", "PERCENT", params.min_recall, {-1, 100},
                     "leave out answers whose ROUGE-1 recall is at most PERCENT");
    }
    if (metric.seed) {
        table.number("--seed", "N", params.seed, {0, std::numeric_limits<uint32_t>::max()},
                     "random seed for resampling the confidence intervals");
    }
}

} // namespace

void add_metric_commands(Program & program) {
    constexpr int any_number = 1 << 20;
    for (const StudyMetric & metric : study_metrics()) {
        const auto  typed   = std::make_shared<Typed>();
        const int   n       = static_cast<int>(metric.n_recordings);
        Command &   command = add_recording_command(program, metric.name, metric.help, typed->params.paths,
                                                    std::max(n, 1), n > 0 ? n : any_number);
        FlagTable & table   = command.flags;
        add_study_flags(table, metric, typed->params);
        table
            .texts("--label", "NAME", typed->params.labels, 1,
                   "name to show instead of the model's name, one per recording; recordings with the same name are "
                   "grouped")
            .with_setting("labels");
        table.toggle("--json", typed->json, true, "print everything as JSON");
        table.toggle("--csv", typed->csv, true, "print the numbers as CSV");
        table.text("--svg", "FILE", typed->svg, "write the figure as SVG");
        table.text("--png", "FILE", typed->png, "write the figure as PNG");
        table.choice("--theme", theme_names, typed->theme,
                     "colours of the figure; by default an SVG has both and a PNG is light");
        command.run = [typed](const Command & itself) { return run(itself, *typed); };
    }
}
