#include "analysis/labels.h"
#include "analysis/qk-maps.h"
#include "analysis/received.h"
#include "analysis/studies.h"
#include "buoy/message.h"

#include <algorithm>

namespace buoy::analysis {

namespace {

enum Number : size_t { qk_gain, angle_part, norm_part, rest_part, cos_gain, norm_gain, with_anchors, n_numbers };

const std::vector<Quantity> quantities = {
    {"qk_difference", "Δ q·k", 3},
    {"qk_difference_by_angle", "Δ by angle", 3},
    {"qk_difference_by_norm", "Δ by norm", 3},
    {"qk_difference_rest", "Δ rest", 3},
    {"cos_difference", "Δ cos θ", 3},
    {"norms_difference", "Δ ‖q‖‖k‖", 3},
    {"with_anchors", "with anchors", 1, true},
};

const Metric metric = {"qk", quantities, quantities, "Δ: mean over anchor keys − mean over the other keys"};

std::vector<double> to_numbers(const QkDifference & d, const Anchors & anchors) {
    return {d.qk, d.angle, d.norm, d.rest, d.cos, d.norms, anchors.found()};
}

figure::HeatMap map_of(const Recording & recording, const QkMaps & maps, const std::vector<double> & values,
                       const std::string & title, const Anchors & anchors, const AnchorRule & rule) {
    figure::HeatMap map;
    map.title   = title;
    map.rows    = maps.n_rows;
    map.columns = maps.n_keys;
    map.values.assign(values.begin(), values.end());
    map.value.label   = title;
    map.map           = title == "‖q‖‖k‖" ? figure::ColorMap::sequential : figure::ColorMap::diverging;
    map.x_label       = "key";
    map.y_label       = "query";
    map.square        = true;
    const auto labels = token_labels(recording);
    map.column_labels.assign(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(maps.n_keys));
    map.marks_label  = mark_label(rule);
    map.column_marks = anchors.positions;
    for (int32_t position : maps.positions) {
        map.row_labels.push_back(labels[static_cast<size_t>(position)]);
    }
    return map;
}

Measured measure(const Recording & recording, const StudyParams & params, std::vector<figure::Chart> & charts) {
    recording.need(Tap::rot_q, metric.name);
    recording.need(Tap::rot_k, metric.name);
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers          = choose_layers(recording, params.layers);
    const auto rows     = latest_rows(recording, params.step);
    const auto received = received_of_rows(recording, out.layers, rows, metric.name + std::string("'s anchors"));
    out.by_layer.resize(n_numbers);
    out.anchors_from.resize(out.layers.size());
    for (size_t l = 0; l < out.layers.size(); l++) {
        const Anchors             anchors = find_anchors(received[l], rule);
        const QkPass              pass    = read_qk(recording, rows, out.layers[l]);
        const std::vector<double> numbers_of =
            to_numbers(params.head ? difference_of(head_maps(recording, pass, *params.head), anchors.positions)
                                   : mean_difference(recording, pass, anchors.positions),
                       anchors);
        for (size_t q = 0; q < n_numbers; q++) {
            out.by_layer[q].push_back(numbers_of[q]);
        }
        out.detail["anchors"].push_back(anchors.positions);
        add_source(out.anchors_from[l], anchors);
        if (out.layers.size() == 1) {
            const QkMaps maps     = params.head ? head_maps(recording, pass, *params.head) : mean_maps(recording, pass);
            out.detail["queries"] = maps.positions;
            out.detail["maps"]    = {{"qk", rows_json(maps, maps.qk)},
                                     {"cos", rows_json(maps, maps.cos)},
                                     {"norms", rows_json(maps, maps.norms)}};
            charts.emplace_back(map_of(recording, maps, maps.qk, "QK", anchors, rule));
            charts.emplace_back(map_of(recording, maps, maps.cos, "cos θ", anchors, rule));
            charts.emplace_back(map_of(recording, maps, maps.norms, "‖q‖‖k‖", anchors, rule));
        }
    }
    for (const std::vector<double> & values : out.by_layer) {
        out.overall.push_back(mean_of(values));
    }
    out.detail["rule"] = rule.text();
    return out;
}

} // namespace

Findings study_qk(const StudyParams & params) {
    std::vector<figure::Chart>  maps;
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params, maps); });
    Findings out     = report(metric, measured, params);
    out.figure.title = "What makes anchors: angle and norm";
    out.figure.caption =
        "Difference in q·k = ‖q‖‖k‖cos θ between anchor keys and the others, split into its parts; layers without "
        "anchors have none; " +
        rule_caption(params.rule.value_or(AnchorRule{}), measured) + band_text(measured);
    note_anchors(out, measured);
    if (!maps.empty()) {
        out.figure.charts  = std::move(maps);
        out.figure.columns = 3;
        out.figure.title   = concat("q·k of layer ", measured[0].layers[0],
                                  params.head ? concat(", head ", *params.head) : std::string(", mean over heads"));
        out.figure.caption = measured[0].anchors_from[0] == "none" ? "After RoPE; this layer has no anchors."
                                                                   : "After RoPE; arrows point to the marked columns.";
        return out;
    }
    for (const Group & group : group_by_model(measured)) {
        figure::LineChart chart;
        chart.title   = group.model;
        chart.x.label = "layer";
        chart.y.label = "difference in q·k, anchors − others";
        for (const Number number : {qk_gain, angle_part, norm_part, rest_part}) {
            chart.series.push_back(layer_chart(quantities[number], number, {group}).series[0]);
            chart.series.back().name = quantities[number].label;
        }
        out.figure.charts.emplace_back(std::move(chart));
    }
    out.figure.columns = std::min<size_t>(out.figure.charts.size(), 2);
    return out;
}

} // namespace buoy::analysis
