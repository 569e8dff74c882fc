#include "analysis/labels.h"
#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/studies.h"
#include "buoy/error.h"
#include "io/printable.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

enum Number : size_t { received_distance, pattern_distance, kept, lost, gained, overlap, n_numbers };

const std::vector<Quantity> quantities = {
    {"received_distance", "distance of received", 4},
    {"pattern_distance", "distance of patterns", 4},
    {"anchors_kept", "anchors kept", 2},
    {"anchors_lost", "lost", 2},
    {"anchors_gained", "gained", 2},
    {"overlap", "overlap", 3},
};

const Metric metric = {"compare", quantities, quantities};

template <typename T> std::vector<T> common(const std::vector<T> & a, const std::vector<T> & b) {
    std::vector<T> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

// The mean over the rows that both have of half the sum of absolute differences; NaN without such rows.
double row_distance(const Array & a, const std::vector<int32_t> & rows_a, const Array & b,
                    const std::vector<int32_t> & rows_b) {
    Mean mean;
    for (size_t i = 0; i < rows_a.size(); i++) {
        const auto at = std::lower_bound(rows_b.begin(), rows_b.end(), rows_a[i]);
        if (at != rows_b.end() && *at == rows_a[i]) {
            const auto   other = static_cast<size_t>(at - rows_b.begin());
            const size_t n     = std::max(a.shape[1], b.shape[1]);
            double       sum   = 0;
            for (size_t j = 0; j < n; j++) {
                const float of_a = j < a.shape[1] ? a.values[i * a.shape[1] + j] : 0.0f;
                const float of_b = j < b.shape[1] ? b.values[other * b.shape[1] + j] : 0.0f;
                sum += std::abs(static_cast<double>(of_a) - static_cast<double>(of_b)) / 2;
            }
            mean.add(sum);
        }
    }
    return mean.value();
}

struct Pair {
    const Recording & a;
    const Recording & b;

    bool has_rows() const { return a.reduce() != TapReduce::received && b.reduce() != TapReduce::received; }

    std::vector<double> measure(int32_t step, int32_t layer, const AnchorRule & rule) const {
        const Array               of_a = a.read(Tap::pattern, step, layer);
        const Array               of_b = b.read(Tap::pattern, step, layer);
        const Received            A    = received_of(of_a, a.reduce());
        const Received            B    = received_of(of_b, b.reduce());
        const std::vector<size_t> in_a = anchors_of(A, rule);
        const std::vector<size_t> in_b = anchors_of(B, rule);
        const auto                both = static_cast<double>(n_common(in_a, in_b));
        return {total_variation(A, B),
                has_rows() ? row_distance(mean_over_heads(of_a, a.reduce()), a.rows(step),
                                          mean_over_heads(of_b, b.reduce()), b.rows(step))
                           : std::numeric_limits<double>::quiet_NaN(),
                both,
                static_cast<double>(in_a.size()) - both,
                static_cast<double>(in_b.size()) - both,
                jaccard(in_a, in_b)};
    }
};

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

Findings study_compare(const StudyOptions & options) {
    if (options.paths.size() != 2) {
        fail("compare: ", options.paths.size(), " recordings, expected two");
    }
    const Recording a = Recording::open(options.paths[0]);
    const Recording b = Recording::open(options.paths[1]);
    for (const Recording * one : {&a, &b}) {
        one->need_reduce({TapReduce::none, TapReduce::heads, TapReduce::received}, metric.name);
    }
    const AnchorRule rule = resolve_rule(options.rule.value_or(AnchorRule{}), a.attention() == AttentionKind::causal);
    Measured         one;
    one.path                   = options.paths[0];
    one.layers                 = common(choose_layers(a, options.layers), choose_layers(b, options.layers));
    std::vector<int32_t> steps = common(a.steps(), b.steps());
    if (options.step) {
        a.rows(*options.step); // refuses a step that is not there
        b.rows(*options.step);
        steps = {*options.step};
    }
    if (one.layers.empty() || steps.empty()) {
        fail(printable(a.path()), " and ", printable(b.path()), " have ", one.layers.empty() ? "no layer" : "no step",
             " in common");
    }
    LayerMeans means(n_numbers, one.layers.size());
    for (int32_t step : steps) {
        for (size_t l = 0; l < one.layers.size() && !a.rows(step).empty() && !b.rows(step).empty(); l++) {
            means.add(l, Pair{a, b}.measure(step, one.layers[l], rule));
        }
    }
    means.put_into(one);
    const std::string name_a  = options.labels.empty() ? base_name(options.paths[0]) : options.labels[0];
    const std::string name_b  = options.labels.empty() ? base_name(options.paths[1]) : options.labels[1];
    const Json        changed = token_changes(a, b);
    one.model                 = name_a + " → " + name_b;
    one.detail = {{"other", options.paths[1]}, {"rule", rule.text()}, {"steps", steps}, {"changed_positions", changed}};
    Findings out = report(metric, {one}, options);
    out.notes.push_back(concat(changed.size(), " of ", std::max(a.n_positions(), b.n_positions()),
                               " tokens of the finished sequences differ"));
    out.figure         = figure_of(one, Pair{a, b}.has_rows());
    out.figure.caption = "Mean over the steps that both recordings have; anchors by rule " + rule.text() + ".";
    return out;
}

} // namespace buoy::analysis
