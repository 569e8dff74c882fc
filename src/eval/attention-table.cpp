// The attention's numbers to be read, and as JSON.

#include "buoy/message.h"
#include "eval/attention-summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;
using analysis::Table;

std::string text_of(const QaMean & mean, double unit, const char * form, const char * form_interval) {
    char text[80];
    if (mean.n == 0 || std::isnan(mean.mean)) {
        return "–";
    }
    if (std::isnan(mean.low)) {
        std::snprintf(text, sizeof(text), form, unit * mean.mean);
    } else {
        std::snprintf(text, sizeof(text), form_interval, unit * mean.mean, unit * mean.low, unit * mean.high);
    }
    return text;
}

std::string percent(const QaMean & mean, double unit) { return text_of(mean, unit, "%.1f", "%.1f [%.1f, %.1f]"); }
std::string signed_number(const QaMean & mean) { return text_of(mean, 1, "%+.2f", "%+.2f [%+.2f, %+.2f]"); }

// A column for each layer.
template <typename Show>
Table by_layer(const std::string & title, const std::vector<QaAttention> & cells,
               std::vector<QaMean> QaAttention::*quantity, const Show & show) {
    size_t n_layer = 0;
    for (const QaAttention & cell : cells) {
        n_layer = std::max(n_layer, (cell.*quantity).size());
    }
    Table table{title, {{"model"}, {"condition"}, {"n"}}, {}};
    for (size_t l = 0; l < n_layer; l++) {
        table.columns.push_back({"layer " + std::to_string(l)});
    }
    for (const QaAttention & cell : cells) {
        const std::vector<QaMean> & means = cell.*quantity;
        if (means.empty()) {
            continue;
        }
        std::vector<analysis::Cell> row = {cell.model, cell.condition, static_cast<int64_t>(means[0].n)};
        for (size_t l = 0; l < n_layer; l++) {
            row.emplace_back(l < means.size() ? show(means[l]) : std::string());
        }
        table.rows.push_back(std::move(row));
    }
    table.n_keys = 2;
    return table;
}

// The best heads of each cell.
Table best_heads(const std::vector<QaAttention> & cells) {
    constexpr size_t n_max = 3;
    Table            table{
        "best retrieval heads, with their scores", {{"model"}, {"condition"}, {"n"}, {"layer, head: score"}}, {}};
    for (const QaAttention & cell : cells) {
        std::vector<std::pair<double, std::string>> order;
        for (size_t l = 0; l < cell.retrieval.size(); l++) {
            for (size_t h = 0; h < cell.retrieval[l].size(); h++) {
                if (cell.retrieval[l][h] > 0) {
                    order.emplace_back(cell.retrieval[l][h], concat("L", l, " H", h));
                }
            }
        }
        std::stable_sort(order.begin(), order.end(), [](const auto & a, const auto & b) { return a.first > b.first; });
        std::string text;
        for (size_t i = 0; i < std::min(n_max, order.size()); i++) {
            char score[16];
            std::snprintf(score, sizeof(score), ": %.2f", order[i].first);
            text += (text.empty() ? "" : ", ") + order[i].second + score;
        }
        if (!text.empty()) {
            table.rows.push_back({cell.model, cell.condition, static_cast<int64_t>(cell.n_retrieval), text});
        }
    }
    return table;
}

Json means_json(const std::vector<QaMean> & means) {
    Json out = Json::array();
    for (const QaMean & mean : means) { // NaN is written as null
        out.push_back({{"mean", mean.mean}, {"low", mean.low}, {"high", mean.high}, {"n", mean.n}});
    }
    return out;
}

} // namespace

std::vector<Table> attention_tables(const std::vector<QaAttention> & cells) {
    if (cells.empty()) {
        return {};
    }
    std::vector<Table> tables = {
        by_layer("absorption: attention on anchors (rule std:3), % [95 % interval]", cells, &QaAttention::absorption,
                 [](const QaMean & mean) { return percent(mean, 1); }),
        by_layer("answers with an anchor, % [95 % interval]", cells, &QaAttention::with_anchors,
                 [](const QaMean & mean) { return percent(mean, 100); }),
        by_layer("attention on the gold passage by the rows that write the answer, % [95 % interval]", cells,
                 &QaAttention::gold, [](const QaMean & mean) { return percent(mean, 100); }),
        by_layer("correlation of attention on the gold passage with a right answer [95 % interval]", cells,
                 &QaAttention::correlation, signed_number),
        best_heads(cells),
    };
    tables.erase(std::remove_if(tables.begin(), tables.end(), [](const Table & table) { return table.rows.empty(); }),
                 tables.end());
    return tables;
}

Json attention_json(const std::vector<QaAttention> & cells) {
    Json out = Json::array();
    for (const QaAttention & cell : cells) {
        out.push_back({{"model", cell.model},
                       {"condition", cell.condition},
                       {"n", cell.n},
                       {"absorption", means_json(cell.absorption)},
                       {"with_anchors", means_json(cell.with_anchors)},
                       {"gold", means_json(cell.gold)},
                       {"correlation", means_json(cell.correlation)},
                       {"retrieval", {{"n", cell.n_retrieval}, {"scores", cell.retrieval}}},
                       {"regions", cell.regions},
                       {"rollout", cell.rollout}});
    }
    return out;
}

} // namespace buoy
