#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/studies.h"

#include <cstdlib>

namespace buoy::analysis {

namespace {

enum Number : size_t { effective, n_anchors, steps_overlap, layers_overlap, displacement, moved, n_numbers };

const std::vector<Quantity> quantities = {
    {"effective_anchors", "effective anchors", 1, true},
    {"anchors", "anchors", 2},
    {"overlap_steps", "overlap of steps", 3},
    {"overlap_layers", "overlap of layers", 3},
    {"displacement", "displacement", 2},
    {"moved", "steps moved", 1, true},
};

const Metric metric = {"floating", quantities, quantities};

// What is remembered of a layer's last step.
struct Last {
    bool                seen = false;
    std::vector<size_t> anchors;
    size_t              largest = 0;
};

Measured measure(const Recording & recording, const StudyParams & params) {
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    std::vector<Last> last(out.layers.size());
    LayerMeans        means(n_numbers, out.layers.size());
    for_each_received(recording, out.layers, params.step, metric.name, [&](int32_t, size_t l, const Received & A) {
        const Last now = {true, anchors_of(A, rule), largest(A)};
        means.add(effective, l, effective_share(A));
        means.add(n_anchors, l, static_cast<double>(now.anchors.size()));
        if (last[l].seen) {
            const auto way = static_cast<double>(now.largest) - static_cast<double>(last[l].largest);
            means.add(steps_overlap, l, jaccard(last[l].anchors, now.anchors));
            means.add(displacement, l, std::abs(way));
            means.add(moved, l, way != 0 ? 1 : 0);
        }
        if (l > 0) { // of the same step, for it came just before
            means.add(layers_overlap, l, jaccard(last[l - 1].anchors, now.anchors));
        }
        last[l] = now;
    });
    means.put_into(out);
    out.detail["rule"] = rule.text();
    return out;
}

} // namespace

Findings study_floating(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    for (const Number number : {effective, steps_overlap, displacement, moved}) {
        figure::LineChart chart = layer_chart(quantities[number], number, groups);
        chart.y.label.clear();
        chart.y.min = 0;
        if (quantities[number].percent || number == steps_overlap) {
            chart.y.max = 1;
        }
        out.figure.charts.emplace_back(std::move(chart));
    }
    std::get<figure::LineChart>(out.figure.charts[0]).title = "effective anchors, of all positions";
    std::get<figure::LineChart>(out.figure.charts[1]).title = "overlap of anchors with the step before";
    std::get<figure::LineChart>(out.figure.charts[2]).title = "positions the largest anchor moves per step";
    std::get<figure::LineChart>(out.figure.charts[3]).title = "steps in which the largest anchor moves";
    out.figure.columns                                      = 2;
    out.figure.shared_scale                                 = false;
    out.figure.title                                        = "Attention floating by layer";
    out.figure.caption =
        "Mean over steps; anchors by rule " + params.rule.value_or(AnchorRule{}).text() + "." + band_text(measured);
    return out;
}

} // namespace buoy::analysis
