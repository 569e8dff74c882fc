#include "analysis/labels.h"
#include "analysis/received.h"
#include "analysis/studies.h"
#include "buoy/message.h"

namespace buoy::analysis {

namespace {

const Metric metric = {
    "absorption",
    {{"absorption", "absorption %", 1}, {"even_share", "even share %", 1}, {"with_anchors", "with anchors", 1, true}},
    {{"absorption", "mean absorption %", 1},
     {"absorption_max", "largest %", 1},
     {"even_share", "even share %", 1},
     {"with_anchors", "layers with anchors", 1, true}}};

enum Number : size_t { absorbed, even, with_anchors, n_numbers };
enum Overall : size_t { absorbed_mean, absorbed_most, even_mean, with_mean };

AnchorRule asked_rule(const StudyParams & params) { return params.rule.value_or(AnchorRule{}); }

Measured measure(const Recording & recording, const StudyParams & params, Table & anchors) {
    const AnchorRule rule = resolve_rule(asked_rule(params), recording.attention() == AttentionKind::causal);
    Measured         out;
    out.layers = choose_layers(recording, params.layers);
    const std::vector<Received> received =
        received_of_rows(recording, out.layers, latest_rows(recording, params.step), metric.name);
    out.by_layer.resize(n_numbers);
    out.anchors_from.resize(out.layers.size());
    out.detail["rule"] = rule.text();
    for (size_t l = 0; l < out.layers.size(); l++) {
        const Anchors found = find_anchors(received[l], rule);
        out.by_layer[absorbed].push_back(100 * share_of(received[l], found.positions));
        out.by_layer[even].push_back(100.0 * static_cast<double>(found.positions.size()) /
                                     static_cast<double>(received[l].size()));
        out.by_layer[with_anchors].push_back(found.found());
        out.detail["anchors"].push_back(found.positions);
        add_source(out.anchors_from[l], found);
        anchors.rows.push_back({int64_t{out.layers[l]}, anchors_cell(recording, found)});
    }
    double most = out.by_layer[0].front();
    for (double value : out.by_layer[0]) {
        most = value > most ? value : most;
    }
    out.overall = {mean_of(out.by_layer[absorbed]), most, mean_of(out.by_layer[even]),
                   mean_of(out.by_layer[with_anchors])};
    return out;
}

// "buoy-arm: the first position receives 3.7 % of the attention (an even share: 0.9 %), mean of all layers; …"
std::string conclusion(const Group & group, const AnchorRule & rule) {
    const double with = mean_of(group.overall(with_mean));
    if (rule.has_threshold() && !(with > 0)) {
        return group.model + ": no layer has an anchor by rule " + rule.text() + ".";
    }
    size_t most = 0;
    for (size_t l = 0; l < group.layers.size(); l++) {
        most = group.layer_spread(0, group.layers[l]).mean > group.layer_spread(0, group.layers[most]).mean ? l : most;
    }
    const std::string where = rule.has_threshold()
                                  ? percent_text(with, 0) + " of layers have anchors; they receive "
                                  : concat(anchors_text(rule), rule.k > 1 ? " receive " : " receives ");
    return concat(group.model, ": ", where, number_text(mean_of(group.overall(absorbed_mean)), 1),
                  " % of the attention (an even share: ", number_text(mean_of(group.overall(even_mean)), 1),
                  " %), mean of all layers", recordings_text(group), "; most in layer ", group.layers[most], ", ",
                  number_text(group.layer_spread(0, group.layers[most]).mean, 1), " %.");
}

} // namespace

Findings study_absorption(const StudyParams & params) {
    Table anchors{"", {{"layer"}, {"anchors (position, token)"}}, {}};

    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params, anchors); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    if (measured.size() == 1) {
        out.tables.push_back(anchors);
    }
    for (const Group & group : groups) {
        out.conclusions.push_back(conclusion(group, parse_rule(group.measured[0]->detail.at("rule"))));
    }
    note_anchors(out, measured);
    figure::LineChart chart = layer_chart({"absorption", "attention on anchors, %"}, 0, groups);
    chart.title.clear();
    chart.y.min        = 0;
    out.figure.title   = "Absorption by layer";
    out.figure.caption = "Share of all attention that anchors receive" +
                         std::string(params.step ? " in step " + std::to_string(*params.step)
                                                 : " in the pattern of the finished sequence") +
                         "; " + rule_caption(asked_rule(params), measured) + band_text(measured);
    out.figure.charts = {chart};
    return out;
}

} // namespace buoy::analysis
