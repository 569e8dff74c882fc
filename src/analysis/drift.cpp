#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/row-distance.h"
#include "analysis/studies.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

enum Number : size_t { pattern_distance, head_similarity, key_change, norm_change, n_numbers };

const std::vector<Quantity> quantities = {
    {"pattern_distance", "pattern distance", 4},
    {"head_similarity", "head similarity", 4},
    {"key_change", "key change", 4},
    {"value_norm_change", "value norm change", 4},
};

const Metric metric = {"drift", quantities, quantities};

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double cosine(double ab, double aa, double bb) { return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : none; }

// The mean over heads of the cosine between a head's patterns, taken as one vector each, in the rows that both steps computed.
double similarity(const Array & a, const std::vector<int32_t> & rows_a, const Array & b,
                  const std::vector<int32_t> & rows_b) {
    const auto   both = common_rows(rows_a, rows_b);
    const size_t n    = std::min(a.shape[2], b.shape[2]);
    Mean         mean;
    for (size_t h = 0; h < a.shape[0]; h++) {
        double ab = 0, aa = 0, bb = 0;
        for (const auto & [i, j] : both) {
            const float * of_a = a.values.data() + (h * a.shape[1] + i) * a.shape[2];
            const float * of_b = b.values.data() + (h * b.shape[1] + j) * b.shape[2];
            for (size_t k = 0; k < n; k++) {
                const double x = static_cast<double>(of_a[k]), y = static_cast<double>(of_b[k]);
                ab += x * y;
                aa += x * x;
                bb += y * y;
            }
        }
        mean.add(cosine(ab, aa, bb));
    }
    return mean.value();
}

// One minus the cosine of each key with what it was, the mean over K/V heads and positions. [Hkv, K, D]
double change_of_keys(const Array & a, const Array & b) {
    const size_t D = a.shape[2];
    Mean         mean;
    for (size_t h = 0; h < a.shape[0]; h++) {
        for (size_t k = 0; k < std::min(a.shape[1], b.shape[1]); k++) {
            double ab = 0, aa = 0, bb = 0;
            for (size_t d = 0; d < D; d++) {
                const double x = static_cast<double>(a.values[(h * a.shape[1] + k) * D + d]);
                const double y = static_cast<double>(b.values[(h * b.shape[1] + k) * D + d]);
                ab += x * y;
                aa += x * x;
                bb += y * y;
            }
            mean.add(1 - cosine(ab, aa, bb));
        }
    }
    return mean.value();
}

// By which part of itself a value's norm changes. [Hkv, K]
double change_of_norms(const Array & a, const Array & b) {
    Mean mean;
    for (size_t h = 0; h < a.shape[0]; h++) {
        for (size_t k = 0; k < std::min(a.shape[1], b.shape[1]); k++) {
            const double x = static_cast<double>(a.values[h * a.shape[1] + k]);
            const double y = static_cast<double>(b.values[h * b.shape[1] + k]);
            mean.add(x > 0 ? std::abs(y - x) / x : none);
        }
    }
    return mean.value();
}

// What the file has of a step in a layer.
struct Snapshot {
    int32_t step = -1;
    Array   pattern, keys, norms;
};

Snapshot read(const Recording & recording, int32_t step, int32_t layer) {
    Snapshot out;
    out.step    = step;
    out.pattern = recording.read(Tap::pattern, step, layer);
    if (recording.has(Tap::rot_k)) {
        out.keys = recording.read(Tap::rot_k, step, layer);
    }
    if (recording.has(Tap::v)) {
        out.norms = recording.read(Tap::v, step, layer);
    }
    return out;
}

std::vector<double> change(const Recording & recording, const Snapshot & before, const Snapshot & now) {
    const std::vector<int32_t> &rows_a = recording.rows(before.step), &rows_b = recording.rows(now.step);
    const TapReduce             reduce = recording.reduce();
    return {row_distance(mean_over_heads(before.pattern, reduce), rows_a, mean_over_heads(now.pattern, reduce), rows_b),
            reduce == TapReduce::none ? similarity(before.pattern, rows_a, now.pattern, rows_b) : none,
            recording.has(Tap::rot_k) ? change_of_keys(before.keys, now.keys) : none,
            recording.has(Tap::v) ? change_of_norms(before.norms, now.norms) : none};
}

Measured measure(const Recording & recording, const StudyParams & params) {
    recording.need_reduce({TapReduce::none, TapReduce::heads}, metric.name);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    LayerMeans means(n_numbers, out.layers.size());
    for (size_t l = 0; l < out.layers.size(); l++) { // two steps of one layer at a time, for patterns are large
        Snapshot before;
        for (const int32_t step : recording.steps()) {
            if (recording.rows(step).empty()) {
                continue;
            }
            Snapshot now = read(recording, step, out.layers[l]);
            if (before.step >= 0) {
                means.add(l, change(recording, before, now));
            }
            before = std::move(now);
        }
    }
    means.put_into(out);
    return out;
}

} // namespace

Findings study_drift(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    for (const Number number : {pattern_distance, head_similarity, key_change, norm_change}) {
        const bool known = std::any_of(measured.begin(), measured.end(),
                                       [&](const Measured & one) { return !std::isnan(one.overall[number]); });
        if (known) {
            figure::LineChart chart = layer_chart(quantities[number], number, groups);
            chart.title             = quantities[number].label;
            chart.y.label.clear();
            chart.y.min = 0;
            out.figure.charts.emplace_back(std::move(chart));
        }
    }
    for (const Group & group : groups) {
        const double distance = mean_of(group.overall(pattern_distance));
        out.conclusions.push_back(group.model + ": " +
                                  (std::isnan(distance)
                                       ? "no row was computed in two consecutive steps"
                                       : "between consecutive steps " + percent_text(distance) +
                                             " of a row's attention goes elsewhere" + recordings_text(group)) +
                                  ".");
    }
    out.figure.title        = "Drift from step to step, by layer";
    out.figure.columns      = 2;
    out.figure.shared_scale = false;
    out.figure.caption      = "Mean over pairs of consecutive steps." + band_text(measured);
    return out;
}

} // namespace buoy::analysis
