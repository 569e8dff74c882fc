#include "analysis/layer-means.h"
#include "analysis/received.h"
#include "analysis/studies.h"
#include "analysis/token-class.h"

#include <limits>

namespace buoy::analysis {

namespace {

constexpr size_t class_count = token_class_count - 1; // without content, which has a number of its own

enum Number : size_t { structure, content, gold, class_first, n_numbers = class_first + class_count };

std::vector<Quantity> all_quantities() {
    std::vector<Quantity> list = {
        {"structure", "structure", 1, true}, {"content", "content", 1, true}, {"gold", "gold", 1, true}};
    for (size_t c = 0; c < class_count; c++) {
        list.push_back({token_class_names[c], token_class_names[c], 1, true});
    }
    return list;
}

const Metric metric = {"depth", all_quantities(), all_quantities()};

std::vector<double> shares(const Received & A, const TokenClasses & classes, size_t step,
                           const std::vector<size_t> & gold_positions) {
    std::vector<std::vector<size_t>> members(token_class_count);
    for (size_t j = 0; j < A.size(); j++) {
        members[static_cast<size_t>(classes.at(step, j))].push_back(j);
    }
    std::vector<size_t> gold_keys;
    for (size_t j : gold_positions) {
        if (j < A.size()) {
            gold_keys.push_back(j);
        }
    }
    std::vector<double> out(n_numbers);
    for (size_t c = 0; c < class_count; c++) {
        out[class_first + c] = share_of(A, members[c]);
    }
    out[content]   = share_of(A, members[static_cast<size_t>(TokenClass::content)]);
    out[structure] = 1 - out[content];
    out[gold]      = gold_positions.empty() ? std::numeric_limits<double>::quiet_NaN() : share_of(A, gold_keys);
    return out;
}

Measured measure(const Recording & recording, const StudyParams & params) {
    const TokenClasses        classes(recording);
    const std::vector<size_t> gold_positions = region_positions(recording, params.gold);
    Measured                  out;
    out.layers = choose_layers(recording, params.layers);
    LayerMeans means(n_numbers, out.layers.size());
    for_each_received(recording, out.layers, params.step, metric.name, [&](int32_t step, size_t l, const Received & A) {
        means.add(l, shares(A, classes, static_cast<size_t>(step), gold_positions));
    });
    means.put_into(out);
    return out;
}

// The lines of one model.
figure::LineChart chart_of(const Group & group, bool has_gold) {
    figure::LineChart chart;
    chart.title     = group.model;
    chart.x.label   = "layer";
    chart.y.label   = "share of attention";
    chart.y.percent = true;
    chart.y.min     = 0;
    chart.y.max     = 1;
    for (const Number number : {structure, content, gold}) {
        if (number != gold || has_gold) {
            figure::LineChart one = layer_chart(metric.quantities[number], number, {group});
            one.series[0].name    = metric.quantities[number].label;
            chart.series.push_back(one.series[0]);
        }
    }
    return chart;
}

} // namespace

Findings study_depth(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    Findings out     = report(metric, measured, params);
    bool     no_gold = true;
    for (const Measured & one : measured) {
        no_gold = no_gold && !(one.overall[gold] >= 0);
    }
    for (const Group & group : group_by_model(measured)) {
        out.figure.charts.emplace_back(chart_of(group, !no_gold));
    }
    out.figure.title        = "Structure and content by layer";
    out.figure.columns      = 2;
    out.figure.shared_scale = true;
    out.figure.caption = "Structure: special tokens, punctuation, white space and masks. Content: all other tokens" +
                         std::string(no_gold ? "." : "; gold: those of the region " + params.gold + ".") +
                         band_text(measured);
    return out;
}

} // namespace buoy::analysis
