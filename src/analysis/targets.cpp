#include "analysis/labels.h"
#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/studies.h"

#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

enum Number : size_t { prompt, written, masks, distance, n_numbers };

const std::vector<Quantity> quantities = {
    {"prompt", "prompt", 1, true},
    {"written", "written tokens", 1, true},
    {"masks", "masks", 1, true},
    {"distance", "distance", 2},
};

const Metric metric = {"targets", quantities, quantities};

// Each row's mean distance to the keys it attends to, of the rows computed last; NaN where rows were not recorded.
class Distances {
public:
    Distances(const Recording & recording, size_t n_layers)
        : recording_(recording),
          by_position_(n_layers,
                       std::vector<double>(recording.n_positions(), std::numeric_limits<double>::quiet_NaN())) {}

    double add(int32_t step, size_t layer, const Array & pattern) {
        std::vector<double> & all = by_position_[layer];
        if (recording_.reduce() != TapReduce::received) {
            const Array                  mean = mean_over_heads(pattern, recording_.reduce());
            const std::vector<int32_t> & rows = recording_.rows(step);
            const size_t                 K    = mean.shape[1];
            for (size_t i = 0; i < rows.size(); i++) {
                double sum = 0;
                for (size_t j = 0; j < K; j++) {
                    sum += static_cast<double>(mean.values[i * K + j]) *
                           std::abs(static_cast<double>(j) - static_cast<double>(rows[i]));
                }
                all[static_cast<size_t>(rows[i])] = sum;
            }
        }
        return mean_of(all);
    }

private:
    const Recording &                recording_;
    std::vector<std::vector<double>> by_position_;
};

std::vector<double> shares(const Recording & recording, int32_t step, const std::vector<int32_t> & unmask_step,
                           const Received & A) {
    std::vector<size_t> members[distance];
    for (size_t j = 0; j < A.size(); j++) {
        members[is_masked(recording, step, j) ? masks : unmask_step[j] == -1 ? prompt : written].push_back(j);
    }
    return {share_of(A, members[prompt]), share_of(A, members[written]), share_of(A, members[masks])};
}

Measured measure(const Recording & recording, const StudyParams & params) {
    recording.need_reduce({TapReduce::none, TapReduce::heads, TapReduce::received}, metric.name);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    ReceivedSoFar              received(recording, out.layers.size(), metric.name);
    const std::vector<int32_t> unmask_step = recording.unmask_step();
    Distances                  distances(recording, out.layers.size());
    LayerMeans                 means(n_numbers, out.layers.size());
    Json                       by_step = Json::array();
    for (const int32_t step : recording.steps()) {
        std::vector<Mean> of_step(n_numbers);
        for (size_t l = 0; l < out.layers.size() && !recording.rows(step).empty(); l++) {
            const Array         pattern = recording.read(Tap::pattern, step, out.layers[l]);
            std::vector<double> values  = shares(recording, step, unmask_step, received.add(step, l, pattern));
            values.push_back(distances.add(step, l, pattern));
            means.add(l, values);
            for (size_t number = 0; number < n_numbers; number++) {
                of_step[number].add(values[number]);
            }
        }
        if (!recording.rows(step).empty()) {
            std::vector<double> values;
            for (const Mean & mean : of_step) {
                values.push_back(mean.value());
            }
            const Json json = numbers(values);
            by_step.push_back({{"step", step}});
            for (size_t number = 0; number < n_numbers; number++) {
                by_step.back()[quantities[number].name] = json[number];
            }
        }
    }
    means.put_into(out);
    out.detail["by_step"] = by_step;
    return out;
}

// The shares of one model.
figure::LineChart chart_of(const Group & group) {
    figure::LineChart chart;
    chart.title     = group.model;
    chart.x.label   = "layer";
    chart.y.label   = "share of attention";
    chart.y.percent = true;
    chart.y.min     = 0;
    chart.y.max     = 1;
    for (const Number number : {prompt, written, masks}) {
        chart.series.push_back(layer_chart(quantities[number], number, {group}).series[0]);
        chart.series.back().name = quantities[number].label;
    }
    return chart;
}

std::string conclusion(const Group & group) {
    const auto  mean = [&](Number number) { return mean_of(group.overall(number)); };
    std::string out  = group.model + ": " + percent_text(mean(prompt)) + " of the attention goes to the prompt, " +
                      percent_text(mean(written)) + " to written tokens, " + percent_text(mean(masks)) + " to masks" +
                      recordings_text(group) + ".";
    if (!std::isnan(mean(distance))) {
        out += " On average a query is " + number_text(mean(distance), 1) + " positions away from what it attends to.";
    }
    return out;
}

} // namespace

Findings study_targets(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    Findings out = report(metric, measured, params);
    for (const Group & group : group_by_model(measured)) {
        out.figure.charts.emplace_back(chart_of(group));
        out.conclusions.push_back(conclusion(group));
    }
    out.figure.title        = "What attention goes to, by layer";
    out.figure.columns      = 2;
    out.figure.shared_scale = true;
    out.figure.caption      = "Mean over steps." + band_text(measured);
    return out;
}

} // namespace buoy::analysis
