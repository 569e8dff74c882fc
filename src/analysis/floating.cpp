#include "analysis/labels.h"
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

Measured measure(const Recording & recording, const StudyOptions & options) {
    const AnchorRule rule =
        resolve_rule(options.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers     = choose_layers(recording, options.layers);
    const size_t L = out.layers.size();

    std::vector<Last>              last(L);
    std::vector<std::vector<Mean>> means(n_numbers, std::vector<Mean>(L));
    std::vector<Mean>              all(n_numbers);
    for_each_received(recording, out.layers, options.step, metric.name, [&](int32_t, size_t l, const Received & A) {
        const auto add = [&](Number number, double value) {
            means[number][l].add(value);
            all[number].add(value);
        };
        const Last now = {true, anchors_of(A, rule), largest(A)};
        add(effective, effective_share(A));
        add(n_anchors, static_cast<double>(now.anchors.size()));
        if (last[l].seen) {
            const auto way = static_cast<double>(now.largest) - static_cast<double>(last[l].largest);
            add(steps_overlap, jaccard(last[l].anchors, now.anchors));
            add(displacement, std::abs(way));
            add(moved, way != 0 ? 1 : 0);
        }
        if (l > 0) { // of the same step, for it came just before
            add(layers_overlap, jaccard(last[l - 1].anchors, now.anchors));
        }
        last[l] = now;
    });
    for (size_t number = 0; number < n_numbers; number++) {
        out.by_layer.emplace_back();
        for (const Mean & mean : means[number]) {
            out.by_layer.back().push_back(mean.value());
        }
        out.overall.push_back(all[number].value());
    }
    out.detail["rule"] = rule.text();
    return out;
}

} // namespace

Findings study_floating(const StudyOptions & options) {
    const std::vector<Measured> measured =
        measure_each(options, [&](const Recording & r) { return measure(r, options); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, options);
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
    return out;
}

} // namespace buoy::analysis
