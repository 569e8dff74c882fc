#include "analysis/received.h"
#include "analysis/studies.h"
#include "analysis/token-class.h"

#include <algorithm>
#include <cmath>

namespace buoy::analysis {

namespace {

// class_first … are the shares of token classes among the sinks
enum Number : size_t {
    n_sinks,
    with_sinks,
    share,
    persistence,
    drift,
    left,
    right,
    class_first,
    n_numbers = class_first + token_class_count
};

std::vector<Quantity> all_quantities() {
    std::vector<Quantity> list = {{"sinks", "sinks", 2},           {"with_sinks", "with sinks", 1, true},
                                  {"share", "attention", 1, true}, {"persistence", "persistence", 1, true},
                                  {"drift", "drift", 2},           {"left", "left", 1, true},
                                  {"right", "right", 1, true}};
    for (const char * name : token_class_names) {
        list.push_back({name, name, 1, true});
    }
    return list;
}

const Metric metric = {"sinks", all_quantities(), all_quantities()};

// What adds up over the steps of a layer, or of all.
struct Sums {
    Mean                                  sinks, with, share, drift, left, right;
    double                                n_before = 0, n_kept = 0;
    std::array<double, token_class_count> classes{};

    std::vector<double> values() const {
        const double total = [&] {
            double n = 0;
            for (double value : classes) {
                n += value;
            }
            return n;
        }();
        std::vector<double> out = {sinks.value(), with.value(), share.value(), n_kept / n_before,
                                   drift.value(), left.value(), right.value()};
        for (double value : classes) {
            out.push_back(value / total);
        }
        return out;
    }
};

// The mean position of the sinks, weighted by what they receive.
double centre(const Received & A, const std::vector<size_t> & sinks) {
    double sum = 0, weighted = 0;
    for (size_t j : sinks) {
        sum += A[j];
        weighted += A[j] * static_cast<double>(j);
    }
    return weighted / sum;
}

struct Last {
    bool                seen = false;
    std::vector<size_t> sinks;
    double              centre = 0;
};

void add_movement(Sums & sums, const Last & before, const Last & now) {
    sums.n_before += static_cast<double>(before.sinks.size());
    sums.n_kept += static_cast<double>(n_common(before.sinks, now.sinks));
    if (!before.sinks.empty() && !now.sinks.empty()) {
        const double way = now.centre - before.centre;
        sums.drift.add(way);
        sums.left.add(way < 0 ? 1 : 0);
        sums.right.add(way > 0 ? 1 : 0);
    }
}

Measured measure(const Recording & recording, const StudyParams & params) {
    const AnchorRule rule =
        resolve_rule(params.rule.value_or(AnchorRule{}), recording.attention() == AttentionKind::causal);
    const TokenClasses classes(recording);
    Measured           out;
    out.layers     = choose_layers(recording, params.layers);
    const size_t L = out.layers.size();

    std::vector<Last> last(L);
    std::vector<Sums> sums(L + 1); // and of all layers
    Json              places = Json::array();
    out.anchors_from.resize(L);
    for_each_received(recording, out.layers, params.step, metric.name, [&](int32_t step, size_t l, const Received & A) {
        const Anchors found = find_anchors(A, rule);
        Last          now{true, found.positions, centre(A, found.positions)};
        add_source(out.anchors_from[l], found);
        for (const size_t target : {l, L}) {
            sums[target].sinks.add(static_cast<double>(now.sinks.size()));
            sums[target].with.add(found.found());
            sums[target].share.add(share_of(A, now.sinks));
            for (size_t j : now.sinks) {
                sums[target].classes[static_cast<size_t>(classes.at(static_cast<size_t>(step), j))] += 1;
            }
            if (last[l].seen) {
                add_movement(sums[target], last[l], now);
            }
        }
        if (!now.sinks.empty()) {
            places.push_back({{"step", step}, {"layer", out.layers[l]}, {"positions", now.sinks}});
        }
        last[l] = std::move(now);
    });
    out.by_layer.assign(n_numbers, std::vector<double>(L));
    for (size_t l = 0; l < L; l++) {
        const std::vector<double> values = sums[l].values();
        for (size_t q = 0; q < n_numbers; q++) {
            out.by_layer[q][l] = values[q];
        }
    }
    out.overall         = sums[L].values();
    out.detail["rule"]  = rule.text();
    out.detail["sinks"] = std::move(places);
    return out;
}

// "buoy-mdm: sinks in 84.0 % of steps and layers; they receive 4.1 % of the attention. Most are content (62.0 %). …"
std::string conclusion(const Group & group, const AnchorRule & rule) {
    const auto  mean = [&](size_t number) { return mean_of(group.overall(number)); };
    std::string out  = group.model + ": ";
    if (rule.has_threshold() && !(mean(with_sinks) > 0)) {
        return out + "no sink in any step or layer.";
    }
    size_t most = class_first;
    for (size_t c = class_first; c < n_numbers; c++) {
        most = mean(c) > mean(most) ? c : most;
    }
    out += rule.has_threshold() ? "sinks in " + percent_text(mean(with_sinks)) + " of steps and layers; they receive "
                                : anchors_text(rule) + (rule.k > 1 ? " receive " : " receives ");
    out += percent_text(mean(share)) + " of the attention" + recordings_text(group) + ". The most frequent class is " +
           metric.quantities[most].label + " (" + percent_text(mean(most)) + ").";
    return std::isfinite(mean(persistence)) ? out + " " + percent_text(mean(persistence)) + " persist to the next step."
                                            : out;
}

figure::BarChart class_chart(const std::vector<Group> & groups) {
    figure::BarChart chart;
    chart.title     = "what the sinks are";
    chart.y.percent = true;
    chart.groups.assign(token_class_names.begin(), token_class_names.end());
    for (const Group & group : groups) {
        figure::BarSeries series{group.model, {}, {}, {}};
        for (size_t c = 0; c < token_class_count; c++) {
            const Spread spread = spread_of(group.overall(class_first + c));
            series.values.push_back(spread.mean);
            if (group.measured.size() > 1) {
                series.low.push_back(spread.mean - spread.deviation);
                series.high.push_back(spread.mean + spread.deviation);
            }
        }
        chart.series.push_back(std::move(series));
    }
    return chart;
}

} // namespace

Findings study_sinks(const StudyParams & params) {
    const std::vector<Measured> measured =
        measure_each(params, [&](const Recording & r) { return measure(r, params); });
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out    = report(metric, measured, params);
    out.figure.title                = "Attention sinks";
    out.figure.columns              = 2;
    out.figure.charts.emplace_back(class_chart(groups));
    for (const auto & [number, title] : {std::pair(share, "attention that sinks receive"),
                                         {persistence, "sinks that persist to the next step"},
                                         {drift, "positions that the sinks' centre moves per step"}}) {
        figure::LineChart chart = layer_chart({"", title, 2, metric.quantities[number].percent}, number, groups);
        chart.y.label.clear();
        if (metric.quantities[number].percent) {
            chart.y.min = 0;
        }
        out.figure.charts.emplace_back(std::move(chart));
    }
    out.figure.caption = "A sink is an anchor; drift below 0 is towards the beginning of the text; " +
                         rule_caption(params.rule.value_or(AnchorRule{}), measured) + band_text(measured);
    for (const Group & group : groups) {
        out.conclusions.push_back(conclusion(group, parse_rule(group.measured[0]->detail.at("rule"))));
    }
    note_anchors(out, measured, "sink");
    return out;
}

} // namespace buoy::analysis
