#include "analysis/labels.h"
#include "analysis/received.h"
#include "analysis/studies.h"

#include <algorithm>
#include <limits>

namespace buoy::analysis {

namespace {

struct Drift {
    std::vector<int32_t>             steps;
    std::vector<Received>            received; // [step][K], the mean of the layers
    std::vector<std::vector<size_t>> anchors;  // of each step
};

Drift drift_of(const Recording & recording, const std::vector<int32_t> & layers, const AnchorRule & rule,
               const StudyParams & params) {
    Drift out;
    for_each_received(recording, layers, params.step, "temporal", [&](int32_t step, size_t, const Received & A) {
        if (out.steps.empty() || out.steps.back() != step) {
            out.steps.push_back(step);
            out.received.emplace_back(A.size());
        }
        for (size_t j = 0; j < A.size(); j++) {
            out.received.back().at(j) += A[j] / static_cast<double>(layers.size());
        }
    });
    for (const Received & A : out.received) {
        out.anchors.push_back(anchors_of(A, rule));
    }
    return out;
}

figure::HeatMap map_of(const Recording & recording, const Drift & drift) {
    figure::HeatMap map;
    map.rows    = drift.steps.size();
    map.columns = recording.n_positions();
    map.values.assign(map.rows * map.columns, std::numeric_limits<float>::quiet_NaN());
    for (size_t s = 0; s < map.rows; s++) {
        for (size_t j = 0; j < drift.received[s].size(); j++) {
            map.values[s * map.columns + j] = static_cast<float>(drift.received[s][j]);
        }
        for (size_t j : drift.anchors[s]) {
            map.hatched.emplace_back(s, j);
        }
        map.row_labels.push_back(std::to_string(drift.steps[s]));
    }
    map.x_label       = "position (token of the finished sequence)";
    map.y_label       = "step";
    map.value.label   = "received attention";
    map.column_labels = token_labels(recording);
    map.separators    = answer_separator(recording);
    map.hatched_label = "anchor";
    return map;
}

} // namespace

Findings study_temporal(const StudyParams & params) {
    const AnchorRule asked = params.rule.value_or(AnchorRule{});
    Findings         out;
    Table            steps{"", {{"recording"}, {"step"}, {"largest", 4}, {"anchors (position, token)"}}, {}};
    out.data.columns = {{"recording"}, {"model"}, {"step"}, {"position"}, {"token"}, {"received"}, {"anchor"}};
    out.json         = {{"metric", "temporal"}, {"recordings", Json::array()}};

    size_t     n_positions = 0;
    const auto measure     = [&](const Recording & recording) {
        Measured one;
        n_positions              = std::max(n_positions, recording.n_positions());
        one.layers               = choose_layers(recording, params.layers);
        const AnchorRule  rule   = resolve_rule(asked, recording.attention() == AttentionKind::causal);
        const Drift       drift  = drift_of(recording, one.layers, rule, params);
        figure::HeatMap   map    = map_of(recording, drift);
        const size_t      number = out.json["recordings"].size();
        const std::string model  = params.labels.empty() ? recording.model() : params.labels.at(number);
        map.title                = model + ": " + base_name(recording.path()) + ", " + layers_text(one.layers);
        out.figure.charts.emplace_back(std::move(map));
        Json json = {{"recording", recording.path()},
                     {"model", model},
                     {"layers", one.layers},
                     {"rule", rule.text()},
                     {"steps", drift.steps}};
        for (size_t s = 0; s < drift.steps.size(); s++) {
            const Received & A = drift.received[s];
            json["received"].push_back(numbers(A));
            json["anchors"].push_back(drift.anchors[s]);
            steps.rows.push_back({base_name(recording.path()), int64_t{drift.steps[s]}, A[largest(A)],
                                  positions_text(recording, drift.anchors[s])});
            for (size_t j = 0, next = 0; j < A.size(); j++) {
                const bool anchor = next < drift.anchors[s].size() && drift.anchors[s][next] == j;
                next += anchor ? 1 : 0;
                out.data.rows.push_back({recording.path(), model, int64_t{drift.steps[s]}, static_cast<int64_t>(j),
                                         recording.pieces()[j], A[j], int64_t{anchor ? 1 : 0}});
            }
        }
        out.json["recordings"].push_back(std::move(json));
        return one;
    };
    measure_each(params, measure);
    out.tables       = {std::move(steps)};
    out.figure.title = "Received attention by step";
    out.figure.caption =
        "Mean over heads and query rows of each column of the pattern; anchors by rule " + asked.text() + ".";
    out.figure.shared_scale = out.figure.charts.size() > 1;
    out.figure.width = std::clamp(8.0 * static_cast<double>(n_positions) + 180, 760.0, 1600.0); // room for tokens
    return out;
}

} // namespace buoy::analysis
