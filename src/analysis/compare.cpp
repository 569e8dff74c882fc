#include "analysis/labels.h"
#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/row-distance.h"
#include "analysis/studies.h"
#include "buoy/message.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

enum Number : size_t { received_distance, pattern_distance, kept, lost, gained, overlap, with_a, with_b, n_numbers };

const std::vector<Quantity> quantities = {
    {"received_distance", "received distance", 4},
    {"pattern_distance", "pattern distance", 4},
    {"anchors_kept", "anchors kept", 2},
    {"anchors_lost", "lost", 2},
    {"anchors_gained", "gained", 2},
    {"overlap", "overlap", 3},
    {"with_anchors_a", "with anchors in A", 1, true},
    {"with_anchors_b", "with anchors in B", 1, true},
};

const Metric metric = {"compare", quantities, quantities};

template <typename T> std::vector<T> common(const std::vector<T> & a, const std::vector<T> & b) {
    std::vector<T> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

// One of the two: the pattern of a step, and the received attention as it stands after it.
class Side {
public:
    Side(const Recording & recording, size_t n_layers)
        : recording_(recording), so_far_(recording, n_layers, metric.name) {}

    // False where the step computed no rows, or was not recorded.
    bool advance(int32_t step, size_t l, int32_t layer) {
        const std::vector<int32_t> & steps = recording_.steps();
        if (!std::binary_search(steps.begin(), steps.end(), step) || recording_.rows(step).empty()) {
            return false;
        }
        pattern_  = recording_.read(Tap::pattern, step, layer);
        received_ = so_far_.add(step, l, pattern_);
        return true;
    }

    const Recording & recording() const { return recording_; }
    const Received &  received() const { return received_; }
    Array             head_mean() const { return mean_over_heads(pattern_, recording_.reduce()); }

private:
    const Recording & recording_;
    ReceivedSoFar     so_far_;
    Array             pattern_;
    Received          received_;
};

bool have_rows(const Recording & a, const Recording & b) {
    return a.reduce() != TapReduce::received && b.reduce() != TapReduce::received;
}

std::vector<double> difference(const Side & a, const Side & b, int32_t step, const Anchors & of_a,
                               const Anchors & of_b) {
    const std::vector<size_t> & in_a = of_a.positions;
    const std::vector<size_t> & in_b = of_b.positions;
    const auto                  both = static_cast<double>(n_common(in_a, in_b));
    return {total_variation(a.received(), b.received()),
            have_rows(a.recording(), b.recording())
                ? row_distance(a.head_mean(), a.recording().rows(step), b.head_mean(), b.recording().rows(step))
                : std::numeric_limits<double>::quiet_NaN(),
            both,
            static_cast<double>(in_a.size()) - both,
            static_cast<double>(in_b.size()) - both,
            jaccard(in_a, in_b),
            of_a.found(),
            of_b.found()};
}

// Reads both from their first step on, for rows may last; only the wanted steps count.
LayerMeans differences(const Recording & a, const Recording & b, const std::vector<int32_t> & wanted,
                       const std::vector<int32_t> & layers, const AnchorRule & rule,
                       std::vector<std::string> & anchors_from) {
    Side                 of_a(a, layers.size()), of_b(b, layers.size());
    LayerMeans           means(n_numbers, layers.size());
    std::vector<int32_t> steps;
    std::set_union(a.steps().begin(), a.steps().end(), b.steps().begin(), b.steps().end(), std::back_inserter(steps));
    for (size_t i = 0; i < steps.size() && steps[i] <= wanted.back(); i++) {
        for (size_t l = 0; l < layers.size(); l++) {
            const bool has_a = of_a.advance(steps[i], l, layers[l]);
            const bool has_b = of_b.advance(steps[i], l, layers[l]);
            if (has_a && has_b && std::binary_search(wanted.begin(), wanted.end(), steps[i])) {
                const Anchors in_a = find_anchors(of_a.received(), rule);
                const Anchors in_b = find_anchors(of_b.received(), rule);
                means.add(l, difference(of_a, of_b, steps[i], in_a, in_b));
                add_source(anchors_from[l], in_a);
                add_source(anchors_from[l], in_b);
            }
        }
    }
    return means;
}

Json token_changes(const Recording & a, const Recording & b) {
    const size_t n         = std::max(a.n_positions(), b.n_positions());
    Json         positions = Json::array();
    for (size_t j = 0; j < n; j++) {
        const bool same =
            j < a.n_positions() && j < b.n_positions() && a.token(a.n_steps(), j) == b.token(b.n_steps(), j);
        if (!same) {
            positions.push_back(j);
        }
    }
    return positions;
}

figure::Figure figure_of(const Measured & one, bool has_rows) {
    const Group       group{one.model, {&one}, one.layers};
    figure::LineChart distance = layer_chart({"", "distance"}, received_distance, {group});
    distance.title             = "distance of the patterns (total variation)";
    distance.y.min             = 0;
    distance.series[0].name    = "received attention";
    if (has_rows) {
        distance.series.push_back(layer_chart({"", ""}, pattern_distance, {group}).series[0]);
        distance.series.back().name = "pattern, row by row";
    }
    figure::LineChart anchors;
    anchors.title   = "anchors per step";
    anchors.x.label = "layer";
    anchors.y.min   = 0;
    for (const Number number : {kept, lost, gained}) {
        anchors.series.push_back(layer_chart(quantities[number], number, {group}).series[0]);
        anchors.series.back().name = number == kept ? "kept" : number == lost ? "lost" : "gained";
    }
    figure::Figure out;
    out.title   = "Comparison: " + one.model;
    out.columns = 2;
    out.charts  = {distance, anchors};
    return out;
}

} // namespace

Findings study_compare(const StudyParams & params) {
    if (params.paths.size() != 2) {
        fail("compare: ", params.paths.size(), " recordings, expected 2");
    }
    const Recording a = Recording::open(params.paths[0]);
    const Recording b = Recording::open(params.paths[1]);
    for (const Recording * one : {&a, &b}) {
        one->need_reduce({TapReduce::none, TapReduce::heads, TapReduce::received}, metric.name);
    }
    const AnchorRule rule = resolve_rule(params.rule.value_or(AnchorRule{}), a.attention() == AttentionKind::causal);
    Measured         one;
    one.path                   = params.paths[0];
    one.layers                 = common(choose_layers(a, params.layers), choose_layers(b, params.layers));
    std::vector<int32_t> steps = common(a.steps(), b.steps());
    if (params.step) {
        a.rows(*params.step); // refuses a step that is not there
        b.rows(*params.step);
        steps = {*params.step};
    }
    if (one.layers.empty() || steps.empty()) {
        fail(printable(a.path()), " and ", printable(b.path()), " have ", one.layers.empty() ? "no layer" : "no step",
             " in common");
    }
    one.anchors_from.resize(one.layers.size(), "none");
    differences(a, b, steps, one.layers, rule, one.anchors_from).put_into(one);
    const std::string name_a  = params.labels.empty() ? base_name(params.paths[0]) : params.labels[0];
    const std::string name_b  = params.labels.empty() ? base_name(params.paths[1]) : params.labels[1];
    const Json        changed = token_changes(a, b);
    one.model                 = name_a + " → " + name_b;
    one.detail = {{"other", params.paths[1]}, {"rule", rule.text()}, {"steps", steps}, {"changed_positions", changed}};
    Findings out = report(metric, {one}, params);
    for (const Recording * of : {&a, &b}) {
        if (const size_t n = of->steps().size(); !params.step && n > steps.size()) {
            out.notes.push_back(concat(n - steps.size(), " of ", n, " steps of ", printable(base_name(of->path())),
                                       " have no counterpart and are left out"));
        }
    }
    out.notes.push_back(concat(changed.size(), " of ", std::max(a.n_positions(), b.n_positions()),
                               " tokens of the finished sequences differ"));
    out.figure         = figure_of(one, have_rows(a, b));
    out.figure.caption = "Mean over the steps that both recordings have; " + rule_caption(rule, {one});
    note_anchors(out, {one});
    return out;
}

} // namespace buoy::analysis
