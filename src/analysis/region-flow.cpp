#include "analysis/labels.h"
#include "analysis/received.h"
#include "analysis/rollout.h"
#include "analysis/studies.h"
#include "analysis/token-class.h"
#include "buoy/message.h"

#include <algorithm>
#include <limits>

namespace buoy::analysis {

namespace {

// What of one recording is kept until the mean over all is taken.
struct Flow {
    std::string              path, model;
    std::vector<std::string> names;
    SquareMatrix             matrix;
};

// The regions of each position.
std::vector<std::vector<size_t>> regions_by_position(const Recording & recording) {
    std::vector<std::vector<size_t>> out(recording.n_positions());
    for (size_t r = 0; r < recording.regions().size(); r++) {
        for (size_t j : region_positions(recording, recording.regions()[r].name)) {
            out[j].push_back(r);
        }
    }
    return out;
}

// Adds the sums over pairs of regions of these rows.
void add_sums(const Recording & recording, const StepRows & one, int32_t layer,
              const std::vector<std::vector<size_t>> & regions, SquareMatrix & sums) {
    const Array  pattern = mean_over_heads(recording.read(Tap::pattern, one.step, layer), recording.reduce());
    const auto & rows    = recording.rows(one.step);
    const size_t K       = pattern.shape[1];
    for (size_t i : one.rows) {
        for (size_t from : regions[static_cast<size_t>(rows[i])]) {
            for (size_t j = 0; j < K; j++) {
                for (size_t to : regions[j]) {
                    sums.at(from, to) += static_cast<double>(pattern.values[i * K + j]);
                }
            }
        }
    }
}

void add_recorded(const Recording & recording, const StepRows & one, int32_t layer, SquareMatrix & sums) {
    if (one.rows.size() != recording.rows(one.step).size()) {
        fail(printable(recording.path()), ": rollout of the finished sequence needs some of step ", one.step,
             "'s rows, their sums were recorded; record with `record.reduce` heads, or ask for one `step`");
    }
    const Array pattern = recording.read(Tap::pattern, one.step, layer);
    for (size_t i = 0; i < pattern.values.size(); i++) {
        sums.values[i] += static_cast<double>(pattern.values[i]);
    }
}

Flow flow_of(const Recording & recording, const StudyParams & params) {
    recording.need_reduce({TapReduce::none, TapReduce::heads, TapReduce::regions}, "rollout");
    if (recording.regions().empty()) {
        fail(printable(recording.path()), ": rollout needs regions, the recording names none (`record.regions`)");
    }
    Flow out;
    for (const Region & region : recording.regions()) {
        out.names.push_back(region.name);
    }
    const auto                 regions = regions_by_position(recording);
    const std::vector<int32_t> layers  = choose_layers(recording, params.layers);
    std::vector<SquareMatrix>  sums(layers.size(), SquareMatrix(out.names.size()));
    for (const StepRows & one : latest_rows(recording, params.step)) {
        for (size_t l = 0; l < layers.size(); l++) {
            if (recording.reduce() == TapReduce::regions) {
                add_recorded(recording, one, layers[l], sums[l]);
            } else {
                add_sums(recording, one, layers[l], regions, sums[l]);
            }
        }
    }
    out.matrix = rollout(sums);
    return out;
}

// The mean over recordings of each pair of regions, over those that have both.
struct MeanFlow {
    std::string                      model;
    size_t                           n = 0;
    std::vector<std::string>         names;
    std::vector<std::vector<double>> mean, deviation;
};

size_t index_of(const std::vector<std::string> & names, const std::string & name) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

MeanFlow mean_flow(const std::vector<Flow> & flows, const std::string & model) {
    MeanFlow out{model, 0, {}, {}, {}};
    for (const Flow & flow : flows) {
        for (const std::string & name : flow.names) {
            if (flow.model == model && index_of(out.names, name) == out.names.size()) {
                out.names.push_back(name);
            }
        }
        out.n += flow.model == model ? 1 : 0;
    }
    for (const std::string & query : out.names) {
        out.mean.emplace_back();
        out.deviation.emplace_back();
        for (const std::string & key : out.names) {
            std::vector<double> values;
            for (const Flow & flow : flows) {
                const size_t i = index_of(flow.names, query), j = index_of(flow.names, key);
                if (flow.model == model && i < flow.names.size() && j < flow.names.size()) {
                    values.push_back(flow.matrix.at(i, j));
                }
            }
            const Spread spread = spread_of(values);
            out.mean.back().push_back(spread.mean);
            out.deviation.back().push_back(spread.deviation);
        }
    }
    return out;
}

figure::HeatMap map_of(const MeanFlow & flow, const std::string & gold) {
    figure::HeatMap map;
    map.title = flow.model + (flow.n > 1 ? ", mean of " + std::to_string(flow.n) + " recordings" : "");
    map.rows = map.columns = flow.names.size();
    map.x_label            = "from region (keys)";
    map.y_label            = "to region (queries)";
    map.value              = {"flow", true, 0.0, std::nullopt};
    map.square             = true;
    map.marks_label        = "gold";
    for (size_t i = 0; i < flow.names.size(); i++) {
        const bool is_gold = flow.names[i] == gold;
        map.column_labels.push_back(flow.names[i]);
        map.row_labels.push_back(flow.names[i]);
        map.values.insert(map.values.end(), flow.mean[i].begin(), flow.mean[i].end());
        if (is_gold) {
            map.row_marks.push_back(i);
            map.column_marks.push_back(i);
        }
    }
    return map;
}

Json matrix_json(const std::vector<std::vector<double>> & rows) {
    Json out = Json::array();
    for (const std::vector<double> & row : rows) {
        out.push_back(numbers(row));
    }
    return out;
}

} // namespace

Findings study_rollout(const StudyParams & params) {
    std::vector<Flow> flows;
    measure_each(params, [&](const Recording & recording) {
        flows.push_back(flow_of(recording, params));
        flows.back().path  = recording.path();
        flows.back().model = params.labels.empty() ? recording.model() : params.labels.at(flows.size() - 1);
        return Measured{};
    });
    Findings out;
    out.json         = {{"metric", "rollout"}, {"recordings", Json::array()}, {"models", Json::array()}};
    out.data.columns = {{"recording"}, {"model"}, {"query"}, {"key"}, {"flow"}};
    std::vector<std::string> models;
    for (const Flow & flow : flows) {
        Json rows = Json::array();
        for (size_t i = 0; i < flow.matrix.n; i++) {
            std::vector<double> row;
            for (size_t j = 0; j < flow.matrix.n; j++) {
                row.push_back(flow.matrix.at(i, j));
                out.data.rows.push_back({flow.path, flow.model, flow.names[i], flow.names[j], row.back()});
            }
            rows.push_back(numbers(row));
        }
        out.json["recordings"].push_back(
            {{"recording", flow.path}, {"model", flow.model}, {"regions", flow.names}, {"flow", std::move(rows)}});
        if (index_of(models, flow.model) == models.size()) {
            models.push_back(flow.model);
        }
    }
    for (const std::string & model : models) {
        const MeanFlow mean = mean_flow(flows, model);
        Table          table{model + ": flow into each region (row) from each region (column), %", {{"to"}}, {}};
        for (size_t i = 0; i < mean.names.size(); i++) {
            table.columns.push_back({mean.names[i] + (mean.names[i] == params.gold ? " (gold)" : ""), 1});
            std::vector<Cell> row = {mean.names[i]};
            for (size_t j = 0; j < mean.names.size(); j++) {
                row.emplace_back(Spread{100 * mean.mean[i][j], 100 * mean.deviation[i][j], mean.n});
            }
            table.rows.push_back(std::move(row));
        }
        out.tables.push_back(std::move(table));
        out.json["models"].push_back({{"model", model},
                                      {"recordings", mean.n},
                                      {"regions", mean.names},
                                      {"mean", matrix_json(mean.mean)},
                                      {"deviation", matrix_json(mean.deviation)}});
        out.figure.charts.emplace_back(map_of(mean, params.gold));
    }
    out.figure.title        = "Flow between regions";
    out.figure.caption      = "Attention rollout over regions, from the first recorded layer to the last.";
    out.figure.columns      = std::min<size_t>(models.size(), 2);
    out.figure.shared_scale = models.size() > 1;
    return out;
}

} // namespace buoy::analysis
