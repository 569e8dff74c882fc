#include "report/metric-figures.h"

#include "analysis/studies.h"
#include "buoy/error.h"
#include "buoy/figure.h"
#include "buoy/message.h"

namespace buoy::report {

namespace {

using namespace buoy::analysis;

struct Study {
    const char * name;
    Findings (*study)(const StudyParams &);
};

const Study studies[] = {
    {"absorption", study_absorption}, {"depth", study_depth}, {"temporal", study_temporal},
    {"floating", study_floating},     {"sinks", study_sinks}, {"rollout", study_rollout},
};

// The page has its width, not its reader's: text that scales with the figure must stay readable.
constexpr double width_one = 596, width_many = 1222;

// Messages name the file by its whole path, which is nobody's business but its owner's.
std::string without_path(std::string message, const std::vector<std::string> & paths) {
    for (const std::string & path : paths) {
        const std::string shown = printable(path);
        const size_t      at    = message.find(shown);
        if (at != std::string::npos) {
            message.replace(at, shown.size(), printable(path.substr(path.rfind('/') + 1)));
        }
    }
    return message;
}

MetricFigure figure_of(const Study & study, const std::vector<std::string> & paths,
                       const std::vector<std::string> & labels) {
    StudyParams params;
    params.paths  = paths;
    params.labels = labels;
    MetricFigure one{study.name, "", ""};
    try {
        figure::Figure figure = study.study(params).figure;
        const bool     wide   = (figure.columns > 1 && figure.charts.size() > 1) || study.study == study_temporal;
        figure.width          = wide ? width_many : width_one;
        one.svg               = figure::render_svg(figure, figure::SvgTheme::page);
    } catch (const Error & error) {
        one.reason = without_path(error.what(), paths);
    }
    return one;
}

} // namespace

std::vector<MetricFigure> metric_figures(const std::vector<std::string> & paths,
                                         const std::vector<std::string> & labels) {
    std::vector<MetricFigure> out;
    for (const Study & study : studies) {
        out.push_back(figure_of(study, paths, labels));
        if (out.back().svg.empty() && paths.size() > 1) { // what one lacks the other may have
            out.pop_back();
            for (size_t i = 0; i < paths.size(); i++) {
                out.push_back(figure_of(study, {paths[i]}, {labels[i]}));
            }
        }
    }
    return out;
}

} // namespace buoy::report
