#include "eval/attention-summary.h"

#include "analysis/statistics.h"
#include "buoy/message.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t bootstrap_seed = 1;

double number_of(const Json & value) { return value.is_number() ? value.get<double>() : std::nan(""); }

// Numbers of one layer, one for each answer; NaN where it has none.
using Column = std::vector<double>;

// The answers of a model under a condition.
struct Answers {
    std::vector<double>                                           right;
    std::vector<Column>                                           absorption, anchors, gold; // [L]
    size_t                                                        n_retrieval = 0;
    std::vector<std::vector<analysis::Mean>>                      retrieval; // [L][H]
    std::vector<std::string>                                      regions;
    std::map<std::pair<std::string, std::string>, analysis::Mean> flow; // (to, from)

    void add(const QaResult & result);

private:
    void add_layers(std::vector<Column> & columns, const Json & values) const;
    void add_retrieval(const Json & scores);
    void add_flow(const Json & attention);
};

void Answers::add(const QaResult & result) {
    right.push_back(result.scores.acc);
    add_layers(absorption, result.attention.at("absorption"));
    add_layers(anchors, result.attention.at("anchors"));
    add_layers(gold, result.attention.at("gold"));
    if (result.attention.at("retrieval").is_array()) {
        n_retrieval++;
        add_retrieval(result.attention["retrieval"]);
    }
    add_flow(result.attention);
}

void Answers::add_layers(std::vector<Column> & columns, const Json & values) const {
    columns.resize(std::max(columns.size(), values.size()));
    for (size_t l = 0; l < columns.size(); l++) {
        columns[l].resize(right.size(), std::nan("")); // answers before that had none
        columns[l].back() = l < values.size() ? number_of(values[l]) : std::nan("");
    }
}

void Answers::add_retrieval(const Json & scores) {
    retrieval.resize(std::max(retrieval.size(), scores.size()));
    for (size_t l = 0; l < scores.size(); l++) {
        retrieval[l].resize(std::max(retrieval[l].size(), scores[l].size()));
        for (size_t h = 0; h < scores[l].size(); h++) {
            retrieval[l][h].add(number_of(scores[l][h]));
        }
    }
}

void Answers::add_flow(const Json & attention) {
    const std::vector<std::string> names = attention.at("regions");
    const Json &                   rows  = attention.at("rollout");
    for (size_t i = 0; i < names.size(); i++) {
        for (size_t j = 0; j < names.size(); j++) {
            flow[{names[i], names[j]}].add(number_of(rows.at(i).at(j)));
        }
    }
    if (names.size() > regions.size()) { // the longest list has all of them, in their order
        regions = names;
    }
}

std::vector<QaMean> means_of(const std::vector<Column> & columns) {
    std::vector<QaMean> out;
    for (const Column & column : columns) {
        const analysis::Spread spread = analysis::spread_of(column);
        const auto [low, high]        = analysis::bootstrap_mean(column, bootstrap_seed);
        out.push_back({spread.mean, low, high, spread.n});
    }
    return out;
}

QaAttention summary_of(const Answers & answers) {
    QaAttention out;
    out.n           = answers.right.size();
    out.n_retrieval = answers.n_retrieval;
    out.absorption  = means_of(answers.absorption);
    out.gold        = means_of(answers.gold);
    for (Column column : answers.anchors) {
        std::transform(column.begin(), column.end(), column.begin(),
                       [](double n) { return std::isnan(n) ? n : static_cast<double>(n > 0); });
        out.with_anchors.push_back(means_of({column})[0]);
    }
    for (size_t l = 0; l < answers.gold.size(); l++) {
        const auto [low, high] = analysis::bootstrap_correlation(answers.gold[l], answers.right, bootstrap_seed);
        out.correlation.push_back({analysis::correlation(answers.gold[l], answers.right), low, high, out.gold[l].n});
    }
    for (const std::vector<analysis::Mean> & heads : answers.retrieval) {
        std::vector<double> & means = out.retrieval.emplace_back();
        for (const analysis::Mean & mean : heads) {
            means.push_back(mean.value());
        }
    }
    out.regions = answers.regions;
    for (const std::string & to : out.regions) {
        std::vector<double> & row = out.rollout.emplace_back();
        for (const std::string & from : out.regions) {
            const auto found = answers.flow.find({to, from});
            row.push_back(found == answers.flow.end() ? std::nan("") : found->second.value());
        }
    }
    return out;
}

} // namespace

std::vector<QaAttention> summarize_attention(const std::string & path) {
    ResultReader                                           reader(path);
    const Json                                             settings = reader.header().settings;
    std::map<std::pair<std::string, std::string>, Answers> by_cell;
    for (QaResult result; reader.next(result);) {
        try {
            if (result.attention.is_object()) {
                by_cell[{result.model, result.condition}].add(result);
            }
        } catch (const nlohmann::json::exception &) {
            fail(printable(path), ":", reader.n_read() + 1, ": \"attention\" is not what `attention` writes");
        }
    }
    std::vector<QaAttention> out;
    for (const Json & model : settings.at("models")) {
        for (const Json & condition : settings.at("conditions")) {
            const std::string name = model.at("name"), column = condition.at("name");
            const auto        found = by_cell.find({name, column});
            if (found != by_cell.end()) {
                out.push_back(summary_of(found->second));
                out.back().model     = name;
                out.back().condition = column;
            }
        }
    }
    return out;
}

} // namespace buoy
