#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/studies.h"

#include <cstdlib>

namespace buoy::analysis {

namespace {

enum Number : size_t {
    effective,
    with_anchors,
    n_anchors,
    steps_overlap,
    layers_overlap,
    appeared,
    vanished,
    compared,
    moved,
    displacement,
    largest_moved,
    n_numbers
};

const std::vector<Quantity> quantities = {
    {"effective_keys", "effective keys", 1, true},
    {"with_anchors", "with anchors", 1, true},
    {"anchors", "anchors", 2},
    {"overlap_steps", "overlap of steps", 3},
    {"overlap_layers", "overlap of layers", 3},
    {"appeared", "appeared", 2},
    {"vanished", "vanished", 2},
    {"compared", "steps compared", 1, true},
    {"moved", "anchor moved", 1, true},
    {"displacement", "displacement", 2},
    {"largest_moved", "largest column moved", 1, true},
};

const Metric metric = {"floating", quantities, quantities};

// What is remembered of a layer's last step.
struct Last {
    bool    seen = false;
    Anchors anchors;
    size_t  largest_anchor = 0;
    size_t  largest_column = 0;
};

Last look(const Received & A, const AnchorRule & rule) {
    Last now{true, find_anchors(A, rule), 0, largest(A)};
    for (const size_t j : now.anchors.positions) {
        now.largest_anchor = j == now.anchors.positions[0] || A[j] > A[now.largest_anchor] ? j : now.largest_anchor;
    }
    return now;
}

// From one step to the next.
void add_steps(LayerMeans & means, size_t l, const Last & before, const Last & now) {
    const std::vector<size_t> & a = before.anchors.positions;
    const std::vector<size_t> & b = now.anchors.positions;

    const auto both = static_cast<double>(n_common(a, b));
    means.add(appeared, l, static_cast<double>(b.size()) - both);
    means.add(vanished, l, static_cast<double>(a.size()) - both);
    means.add(steps_overlap, l, jaccard(a, b));
    means.add(compared, l, a.empty() || b.empty() ? 0 : 1);
    means.add(largest_moved, l, before.largest_column != now.largest_column ? 1 : 0);
    if (!a.empty() && !b.empty()) {
        const auto way = static_cast<double>(now.largest_anchor) - static_cast<double>(before.largest_anchor);
        means.add(moved, l, way != 0 ? 1 : 0);
        means.add(displacement, l, std::abs(way));
    }
}

Measured measure(const Recording & recording, const StudyParams & params) {
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    out.anchors_from.resize(out.layers.size());
    std::vector<Last> last(out.layers.size());
    LayerMeans        means(n_numbers, out.layers.size());
    for_each_received(recording, out.layers, params.step, metric.name, [&](int32_t, size_t l, const Received & A) {
        const Last now = look(A, rule);
        means.add(effective, l, effective_share(A));
        means.add(with_anchors, l, now.anchors.found());
        means.add(n_anchors, l, static_cast<double>(now.anchors.positions.size()));
        if (last[l].seen) {
            add_steps(means, l, last[l], now);
        }
        if (l > 0) { // of the same step, for it came just before
            means.add(layers_overlap, l, jaccard(last[l - 1].anchors.positions, now.anchors.positions));
        }
        add_source(out.anchors_from[l], now.anchors);
        last[l] = now;
    });
    means.put_into(out);
    out.detail["rule"] = rule.text();
    return out;
}

// "buoy-mdm: anchors in 97.2 % of steps and layers. …"
std::string conclusion(const Group & group, const AnchorRule & rule) {
    const auto  mean = [&](Number number) { return mean_of(group.overall(number)); };
    std::string out  = group.model + ": ";
    if (rule.has_threshold()) {
        out +=
            "anchors in " + percent_text(mean(with_anchors)) + " of steps and layers" + recordings_text(group) + ". ";
    }
    if (!(mean(compared) > 0)) {
        return out + "No two consecutive steps have one to compare.";
    }
    out += rule.has_threshold() ? "Between consecutive steps that both have anchors, the largest moves in "
                                : "between consecutive steps " + largest_text(rule) + " moves in ";
    return out + percent_text(mean(moved)) + " of cases (" + number_text(mean(displacement), 2) +
           " positions per step on average); the overlap is " + number_text(mean(steps_overlap), 2) + ".";
}

} // namespace

Findings study_floating(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    for (const Number number : {effective, with_anchors, steps_overlap, moved}) {
        figure::LineChart chart = layer_chart(quantities[number], number, groups);
        chart.y.label.clear();
        chart.y.min = 0;
        if (quantities[number].percent || number == steps_overlap) {
            chart.y.max = 1;
        }
        out.figure.charts.emplace_back(std::move(chart));
    }
    std::get<figure::LineChart>(out.figure.charts[0]).title = "effective keys, of all positions";
    std::get<figure::LineChart>(out.figure.charts[1]).title = "steps with an anchor";
    std::get<figure::LineChart>(out.figure.charts[2]).title = "overlap of anchors with the step before";
    std::get<figure::LineChart>(out.figure.charts[3]).title = "steps after which the largest anchor moves";
    out.figure.columns                                      = 2;
    out.figure.shared_scale                                 = false;
    out.figure.title                                        = "Attention floating by layer";
    out.figure.caption = "Mean over steps; overlap and movement only between steps that both have anchors; " +
                         rule_caption(params.rule.value_or(AnchorRule{}), measured) + band_text(measured);
    for (const Group & group : groups) {
        out.conclusions.push_back(conclusion(group, parse_rule(group.measured[0]->detail.at("rule"))));
    }
    note_anchors(out, measured);
    return out;
}

} // namespace buoy::analysis
