#include "analysis/layer-means.h"
#include "analysis/qk-maps.h"
#include "analysis/retrieval-score.h"
#include "analysis/studies.h"
#include "buoy/message.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

enum Number : size_t { anchor_norm, other_norm, norm_ratio, share, weighted_share, with_anchors, n_numbers };

const std::vector<Quantity> quantities = {
    {"anchor_norm", "‖v‖ of anchors", 3},
    {"other_norm", "‖v‖ of others", 3},
    {"norm_ratio", "ratio", 3},
    {"share", "attention on anchors", 1, true},
    {"weighted_share", "weighted by ‖v‖", 1, true},
    {"with_anchors", "with anchors", 1, true},
};

const Metric metric = {"norms", quantities, quantities};

// What each recorded head's keys receive from the rows of a step. [H, K]
Array received_by_head(Array pattern, TapReduce reduce) {
    if (reduce == TapReduce::received) {
        return pattern;
    }
    const size_t H = pattern.shape[0], Q = pattern.shape[1], K = pattern.shape[2];
    Array        out = {{H, K}, std::vector<float>(H * K)};
    for (size_t h = 0; h < H; h++) {
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t i = 0; i < Q; i++) {
                sum += static_cast<double>(pattern.values[(h * Q + i) * K + j]);
            }
            out.values[h * K + j] = static_cast<float>(sum / static_cast<double>(Q));
        }
    }
    return out;
}

// Σ over heads of what a key receives, and of the same times its value's norm in that head (‖α·v‖, arXiv 2004.10102).
struct Weights {
    Received plain, weighted; // [K]
};

Weights weights_of(const Recording & recording, const Array & by_head, const Array & norms) {
    const std::vector<size_t> of_values = key_heads(recording, recorded_heads(recording), norms.shape[0]);
    const size_t              K         = by_head.shape[1];
    if (of_values.size() != by_head.shape[0] || norms.shape[1] != K) {
        fail(printable(recording.path()), ": attn has ", by_head.shape[0], " heads and ", K, " keys, expected ",
             of_values.size(), " and ", norms.shape[1], ", as v_norm has");
    }
    Weights out = {Received(K), Received(K)};
    for (size_t h = 0; h < by_head.shape[0]; h++) {
        for (size_t j = 0; j < K; j++) {
            const auto alpha = static_cast<double>(by_head.values[h * K + j]);
            out.plain[j] += alpha;
            out.weighted[j] += alpha * static_cast<double>(norms.values[of_values[h] * norms.shape[1] + j]);
        }
    }
    return out;
}

// The mean over K/V heads of ‖v‖, of each position. [K]
std::vector<double> mean_norms(const Array & norms) {
    std::vector<double> out(norms.shape[1]);
    for (size_t i = 0; i < norms.values.size(); i++) {
        out[i % norms.shape[1]] += static_cast<double>(norms.values[i]) / static_cast<double>(norms.shape[0]);
    }
    return out;
}

std::vector<double> numbers_of(const Recording & recording, int32_t step, int32_t layer, Array pattern,
                               const Anchors & found) {
    std::vector<double> out(n_numbers, std::numeric_limits<double>::quiet_NaN());
    out[with_anchors] = found.found();
    if (found.positions.empty()) {
        return out;
    }
    const Array   norms = recording.read(Tap::v, step, layer); // [Hkv, K]
    const Weights w     = weights_of(recording, received_by_head(std::move(pattern), recording.reduce()), norms);
    Mean          of_anchors, of_others;
    const auto    all = mean_norms(norms);
    for (size_t j = 0; j < all.size(); j++) {
        const bool is_anchor = std::binary_search(found.positions.begin(), found.positions.end(), j);
        (is_anchor ? of_anchors : of_others).add(all[j]);
    }
    out[anchor_norm]    = of_anchors.value();
    out[other_norm]     = of_others.value();
    out[norm_ratio]     = of_others.value() > 0 ? of_anchors.value() / of_others.value() : out[norm_ratio];
    out[share]          = share_of(w.plain, found.positions);
    out[weighted_share] = share_of(w.weighted, found.positions);
    return out;
}

Measured measure(const Recording & recording, const StudyParams & params) {
    recording.need(Tap::v, metric.name);
    recording.need_reduce({TapReduce::none, TapReduce::received}, metric.name);
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    Measured out;
    out.layers = choose_layers(recording, params.layers);
    out.anchors_from.resize(out.layers.size());
    ReceivedSoFar received(recording, out.layers.size(), metric.name);
    LayerMeans    means(n_numbers, out.layers.size());
    for (const int32_t step : recording.steps()) {
        for (size_t l = 0; l < out.layers.size() && !recording.rows(step).empty(); l++) {
            Array         pattern = recording.read(Tap::pattern, step, out.layers[l]);
            const Anchors found   = find_anchors(received.add(step, l, pattern), rule);
            add_source(out.anchors_from[l], found);
            means.add(l, numbers_of(recording, step, out.layers[l], std::move(pattern), found));
        }
    }
    means.put_into(out);
    out.detail["rule"] = rule.text();
    return out;
}

std::string conclusion(const Group & group, const AnchorRule & rule) {
    const auto mean = [&](Number number) { return mean_of(group.overall(number)); };
    if (std::isnan(mean(share))) {
        return group.model + ": there are no anchors by rule " + rule.text() + ".";
    }
    return group.model + ": on average, values of " + anchors_text(rule) + " have " + number_text(mean(norm_ratio), 2) +
           " times the norm of the others; the share of the attention there is " + percent_text(mean(share)) +
           ", and " + percent_text(mean(weighted_share)) + " with each key weighted by its value's norm" +
           recordings_text(group) + ".";
}

} // namespace

Findings study_norms(const StudyParams & params) {
    const AnchorRule            rule = params.rule.value_or(AnchorRule{});
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    for (const Number number : {norm_ratio, share, weighted_share}) {
        figure::LineChart chart = layer_chart(quantities[number], number, groups);
        chart.title = number == norm_ratio ? "‖v‖ of anchors, relative to others" : quantities[number].label;
        chart.y.label.clear();
        chart.y.min = 0;
        out.figure.charts.emplace_back(std::move(chart));
    }
    for (const Group & group : groups) {
        out.conclusions.push_back(conclusion(group, rule));
    }
    note_anchors(out, measured);
    out.figure.title        = "Norms of the anchors' values, by layer";
    out.figure.columns      = 3;
    out.figure.shared_scale = false;
    out.figure.caption      = "Mean over steps; " + rule_caption(rule, measured) + band_text(measured);
    return out;
}

} // namespace buoy::analysis
