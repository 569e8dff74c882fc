#include "analysis/study.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

double shown(double value, const Quantity & quantity) { return quantity.percent ? 100 * value : value; }

Spread shown(Spread spread, const Quantity & quantity) {
    spread.mean      = shown(spread.mean, quantity);
    spread.deviation = shown(spread.deviation, quantity);
    return spread;
}

Column column_of(const Quantity & quantity) {
    return {quantity.label + (quantity.percent ? " %" : ""), quantity.digits};
}

Table layer_table(const Metric & metric, const std::vector<Group> & groups) {
    Table table;
    table.title   = metric.title;
    table.n_keys  = 2;
    table.columns = {{"model"}, {"layer"}};
    for (const Quantity & quantity : metric.quantities) {
        table.columns.push_back(column_of(quantity));
    }
    for (const Group & group : groups) {
        for (int32_t layer : group.layers) {
            std::vector<Cell> row = {group.model, int64_t{layer}};
            for (size_t q = 0; q < metric.quantities.size(); q++) {
                row.emplace_back(shown(group.layer_spread(q, layer), metric.quantities[q]));
            }
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

std::string interval_text(const std::pair<double, double> & interval, const Quantity & quantity) {
    char text[100];
    std::snprintf(text, sizeof(text), "%.*f … %.*f", quantity.digits, shown(interval.first, quantity), quantity.digits,
                  shown(interval.second, quantity));
    return std::isfinite(interval.first) ? text : "–";
}

Table overall_table(const Metric & metric, const std::vector<Group> & groups, uint32_t seed) {
    Table table;
    table.title   = metric.title;
    table.columns = {{"model"}, {"recordings"}};
    for (const Quantity & quantity : metric.overall) {
        table.columns.push_back(column_of(quantity));
    }
    const bool many =
        std::any_of(groups.begin(), groups.end(), [](const Group & group) { return group.measured.size() > 1; });
    for (const Group & group : groups) {
        std::vector<Cell> row      = {group.model, static_cast<int64_t>(group.measured.size())};
        std::vector<Cell> interval = {std::string("  95 % interval"), std::string()};
        for (size_t q = 0; q < metric.overall.size(); q++) {
            const std::vector<double> values = group.overall(q);
            row.emplace_back(shown(spread_of(values), metric.overall[q]));
            interval.emplace_back(interval_text(bootstrap_mean(values, seed), metric.overall[q]));
        }
        table.rows.push_back(std::move(row));
        if (many) {
            table.rows.push_back(std::move(interval));
        }
    }
    return table;
}

Table data_table(const Metric & metric, const std::vector<Measured> & measured) {
    Table table;
    table.columns = {{"recording"}, {"model"}, {"layer"}};
    for (const Quantity & quantity : metric.quantities) {
        table.columns.push_back({quantity.name});
    }
    const bool has_anchors = !measured.empty() && !measured[0].anchors_from.empty();
    if (has_anchors) {
        table.columns.push_back({"anchors_from"});
    }
    for (const Measured & one : measured) {
        for (size_t l = 0; l < one.layers.size(); l++) {
            std::vector<Cell> row = {one.path, one.model, int64_t{one.layers[l]}};
            for (const std::vector<double> & values : one.by_layer) {
                row.emplace_back(values[l]);
            }
            if (has_anchors) {
                row.emplace_back(one.anchors_from[l]);
            }
            table.rows.push_back(std::move(row));
        }
    }
    return table;
}

Json recording_json(const Metric & metric, const Measured & one) {
    Json json = {{"recording", utf8_repair(one.path)}, {"model", one.model}, {"layers", one.layers}};
    for (size_t q = 0; q < metric.quantities.size(); q++) {
        json["by_layer"][metric.quantities[q].name] = numbers(one.by_layer[q]);
    }
    for (size_t q = 0; q < metric.overall.size(); q++) {
        json["overall"][metric.overall[q].name] = numbers({one.overall[q]})[0];
    }
    if (!one.anchors_from.empty()) {
        json["anchors_from"] = one.anchors_from;
    }
    json.update(one.detail);
    return json;
}

Json model_json(const Metric & metric, const Group & group, uint32_t seed) {
    Json json = {{"model", group.model}, {"recordings", group.measured.size()}, {"layers", group.layers}};
    for (size_t q = 0; q < metric.quantities.size(); q++) {
        std::vector<double> mean, deviation;
        for (int32_t layer : group.layers) {
            const Spread spread = group.layer_spread(q, layer);
            mean.push_back(spread.mean);
            deviation.push_back(spread.deviation);
        }
        json["by_layer"][metric.quantities[q].name] = {{"mean", numbers(mean)}, {"deviation", numbers(deviation)}};
    }
    for (size_t q = 0; q < metric.overall.size(); q++) {
        const std::vector<double> values        = group.overall(q);
        const Spread              spread        = spread_of(values);
        const auto                interval      = bootstrap_mean(values, seed);
        json["overall"][metric.overall[q].name] = {{"mean", numbers({spread.mean})[0]},
                                                   {"deviation", numbers({spread.deviation})[0]},
                                                   {"interval", numbers({interval.first, interval.second})}};
    }
    return json;
}

} // namespace

Json numbers(const std::vector<double> & values) {
    Json list = Json::array();
    for (double value : values) {
        list.push_back(std::isfinite(value) ? Json(value + 0.0) : Json(nullptr));
    }
    return list;
}

Spread Group::layer_spread(size_t quantity, int32_t layer) const {
    std::vector<double> values;
    for (const Measured * one : measured) {
        const auto at = std::find(one->layers.begin(), one->layers.end(), layer);
        if (at != one->layers.end()) {
            values.push_back(one->by_layer.at(quantity)[static_cast<size_t>(at - one->layers.begin())]);
        }
    }
    return spread_of(values);
}

std::vector<double> Group::overall(size_t quantity) const {
    std::vector<double> values;
    for (const Measured * one : measured) {
        values.push_back(one->overall.at(quantity));
    }
    return values;
}

std::vector<Group> group_by_model(const std::vector<Measured> & measured) {
    std::vector<Group> groups;
    for (const Measured & one : measured) {
        auto group = std::find_if(groups.begin(), groups.end(), [&](const Group & g) { return g.model == one.model; });
        if (group == groups.end()) {
            group = groups.insert(groups.end(), Group{one.model, {}, {}});
        }
        group->measured.push_back(&one);
        std::vector<int32_t> both;
        std::set_union(group->layers.begin(), group->layers.end(), one.layers.begin(), one.layers.end(),
                       std::back_inserter(both));
        group->layers = std::move(both);
    }
    return groups;
}

Findings report(const Metric & metric, const std::vector<Measured> & measured, const StudyParams & params) {
    const std::vector<Group> groups = group_by_model(measured);
    Findings                 out;
    if (!metric.overall.empty()) {
        out.tables.push_back(overall_table(metric, groups, params.seed));
    }
    if (!metric.quantities.empty()) {
        out.tables.push_back(layer_table(metric, groups));
    }
    out.data               = data_table(metric, measured);
    out.json               = {{"metric", metric.name}};
    out.json["recordings"] = Json::array();
    out.json["models"]     = Json::array();
    for (const Measured & one : measured) {
        out.json["recordings"].push_back(recording_json(metric, one));
    }
    for (const Group & group : groups) {
        out.json["models"].push_back(model_json(metric, group, params.seed));
    }
    return out;
}

figure::LineChart layer_chart(const Quantity & quantity, size_t index, const std::vector<Group> & groups) {
    figure::LineChart chart;
    chart.title     = quantity.label;
    chart.x.label   = "layer";
    chart.y.label   = quantity.label;
    chart.y.percent = quantity.percent;
    for (const Group & group : groups) {
        figure::Series series;
        series.name = group.model;
        for (int32_t layer : group.layers) {
            const Spread spread = group.layer_spread(index, layer);
            series.x.push_back(layer);
            series.y.push_back(spread.mean);
            if (group.measured.size() > 1) {
                series.low.push_back(spread.mean - spread.deviation);
                series.high.push_back(spread.mean + spread.deviation);
            }
        }
        chart.series.push_back(std::move(series));
    }
    return chart;
}

void add_source(std::string & anchors_from, const Anchors & found) {
    const bool known = anchors_from == "fallback" || (anchors_from == "rule" && !found.fallback);
    anchors_from     = known ? anchors_from : found.source();
}

void note_anchors(Findings & findings, const std::vector<Measured> & measured, const char * what,
                  const std::function<std::string(const Measured &)> & where) {
    for (const Measured & one : measured) {
        const std::string rule = one.detail.value("rule", "");
        const auto        all  = [&](const char * source) {
            return std::all_of(one.anchors_from.begin(), one.anchors_from.end(),
                                       [&](const std::string & from) { return from == source; });
        };
        if (all("none")) {
            findings.notes.push_back(concat(printable(one.path), ": rule ", rule, " finds no ", what, " ",
                                            where ? where(one) : "in any step or layer"));
        } else if (all("fallback")) {
            findings.notes.push_back(concat(printable(one.path), ": rule ", rule,
                                            ": no column meets the threshold; every \"", what,
                                            "\" here is the largest column instead (a fallback)"));
        }
    }
}

std::string rule_caption(const AnchorRule & asked, const std::vector<Measured> & measured) {
    const auto is = [](const char * source) {
        return [source](const Measured & one) {
            return std::any_of(one.anchors_from.begin(), one.anchors_from.end(),
                               [&](const std::string & from) { return from == source; });
        };
    };
    std::string out = "anchors by rule " + asked.text();
    if (std::any_of(measured.begin(), measured.end(), is("fallback"))) {
        out += ", which falls back to the largest column where no threshold is met";
    }
    return out + ".";
}

std::string number_text(double value, int digits) {
    char text[100];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    return std::isfinite(value) ? text : "–";
}

std::string percent_text(double fraction, int digits) { return number_text(100 * fraction, digits) + " %"; }

std::string recordings_text(const Group & group) {
    return group.measured.size() > 1 ? concat(" (mean of ", group.measured.size(), " recordings)") : std::string();
}

std::string band_text(const std::vector<Measured> & measured) {
    const bool several = measured.size() > group_by_model(measured).size();
    return several ? " Bands: mean ± standard deviation over recordings." : "";
}

} // namespace buoy::analysis
