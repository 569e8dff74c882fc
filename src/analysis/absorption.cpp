#include "analysis/labels.h"
#include "analysis/received.h"
#include "analysis/studies.h"

namespace buoy::analysis {

namespace {

const Metric metric = {"absorption",
                       {{"absorption", "absorption %", 1}},
                       {{"absorption", "mean absorption %", 1}, {"absorption_max", "largest %", 1}}};

Measured measure(const Recording & recording, const StudyParams & params, Table & anchors) {
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(parse_rule("auto")), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    const std::vector<Received> received =
        received_of_rows(recording, out.layers, latest_rows(recording, params.step), metric.name);
    out.by_layer.resize(1);
    out.detail["rule"] = rule.text();
    for (size_t l = 0; l < out.layers.size(); l++) {
        const std::vector<size_t> found = anchors_of(received[l], rule);
        out.by_layer[0].push_back(100 * share_of(received[l], found));
        out.detail["anchors"].push_back(found);
        anchors.rows.push_back({base_name(recording.path()), int64_t{out.layers[l]}, positions_text(recording, found)});
    }
    double most = out.by_layer[0].front();
    for (double value : out.by_layer[0]) {
        most = value > most ? value : most;
    }
    out.overall = {mean_of(out.by_layer[0]), most};
    return out;
}

} // namespace

Findings study_absorption(const StudyParams & params) {
    Table anchors{"", {{"recording"}, {"layer"}, {"anchors (position, token)"}}, {}};

    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params, anchors); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    if (measured.size() == 1) {
        out.tables.push_back(anchors);
    }
    figure::LineChart chart = layer_chart({"absorption", "attention on anchors, %"}, 0, groups);
    chart.title.clear();
    chart.y.min        = 0;
    out.figure.title   = "Absorption by layer";
    out.figure.caption = "Share of all attention that the anchors receive" +
                         std::string(params.step ? " in step " + std::to_string(*params.step)
                                                 : " in the pattern of the finished sequence") +
                         "; anchors by rule " + params.rule.value_or(parse_rule("auto")).text() + "." +
                         band_text(measured);
    out.figure.charts = {chart};
    return out;
}

} // namespace buoy::analysis
