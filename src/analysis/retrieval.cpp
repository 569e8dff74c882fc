#include "analysis/received.h"
#include "analysis/retrieval-score.h"
#include "analysis/studies.h"
#include "buoy/message.h"

#include <algorithm>
#include <map>

namespace buoy::analysis {

namespace {

struct Score {
    std::string                      path, model;
    double                           recall = 0;
    std::vector<int32_t>             layers, heads;
    std::vector<std::vector<double>> scores; // [layer][head]
};

// Scores of one place over recordings, by (layer, head).
using Samples = std::map<std::pair<int32_t, int32_t>, std::vector<double>>;

struct ModelScores {
    std::string model;
    size_t      n = 0; // recordings that count
    Samples     samples;
};

std::vector<ModelScores> by_model(const std::vector<Score> & scores, double min_recall) {
    std::vector<ModelScores> out;
    for (const Score & one : scores) {
        auto at = std::find_if(out.begin(), out.end(), [&](const ModelScores & m) { return m.model == one.model; });
        if (at == out.end()) {
            at = out.insert(out.end(), ModelScores{one.model, 0, {}});
        }
        const bool counts = one.recall > min_recall;
        at->n += counts ? 1 : 0;
        for (size_t l = 0; l < one.layers.size(); l++) {
            for (size_t h = 0; h < one.heads.size(); h++) {
                std::vector<double> & values = at->samples[{one.layers[l], one.heads[h]}];
                if (counts) {
                    values.push_back(one.scores[l][h]);
                }
            }
        }
    }
    return out;
}

std::string count_text(size_t n) { return std::to_string(n) + (n == 1 ? " recording" : " recordings"); }

figure::HeatMap map_of(const ModelScores & model) {
    std::vector<int32_t> layers, heads;
    for (const auto & [place, values] : model.samples) {
        layers.push_back(place.first);
        heads.push_back(place.second);
    }
    for (std::vector<int32_t> * list : {&layers, &heads}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    figure::HeatMap map;
    map.title   = model.model + ", " + count_text(model.n);
    map.x_label = "head";
    map.y_label = "layer";
    map.rows    = layers.size();
    map.columns = heads.size();
    map.value   = {"retrieval score", false, 0.0, std::nullopt};
    for (int32_t layer : layers) {
        map.row_labels.push_back(std::to_string(layer));
        for (int32_t head : heads) {
            const auto found = model.samples.find({layer, head});
            map.values.push_back(
                static_cast<float>(mean_of(found == model.samples.end() ? std::vector<double>{} : found->second)));
        }
    }
    for (int32_t head : heads) {
        map.column_labels.push_back(std::to_string(head));
    }
    return map;
}

// The best heads, to be read.
Table best_heads(const ModelScores & model) {
    constexpr size_t                                            n_max = 10;
    std::vector<std::pair<double, std::pair<int32_t, int32_t>>> order;
    for (const auto & [place, values] : model.samples) {
        order.emplace_back(mean_of(values), place);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto & a, const auto & b) { return a.first > b.first; });
    Table table{model.model + ": heads with the highest scores, of " + std::to_string(order.size()) + "; " +
                    count_text(model.n),
                {{"layer"}, {"head"}, {"score", 4}},
                {}};
    for (size_t i = 0; i < std::min(n_max, order.size()) && model.n > 0; i++) {
        table.rows.push_back({int64_t{order[i].second.first}, int64_t{order[i].second.second},
                              spread_of(model.samples.at(order[i].second))});
    }
    return table;
}

Json model_json(const ModelScores & model) {
    Json list = Json::array();
    for (const auto & [place, values] : model.samples) {
        const Spread spread = spread_of(values);
        list.push_back({{"layer", place.first},
                        {"head", place.second},
                        {"mean", numbers({spread.mean})[0]},
                        {"deviation", spread.deviation}});
    }
    return {{"model", model.model}, {"recordings", model.n}, {"scores", std::move(list)}};
}

} // namespace

Findings study_retrieval(const StudyParams & params) {
    std::vector<Score> scores;
    measure_each(params, [&](const Recording & recording) {
        const std::string          model = params.labels.empty() ? recording.model() : params.labels.at(scores.size());
        Score                      one{recording.path(), model, answer_recall(recording, params.gold), {}, {}, {}};
        const std::vector<int32_t> layers = choose_layers(recording, params.layers);
        one.layers                        = layers;
        one.heads                         = recorded_heads(recording);
        one.scores                        = retrieval_scores(recording, params.gold, layers);
        scores.push_back(std::move(one));
        return Measured{};
    });
    Findings out;
    out.json         = {{"metric", "retrieval"}, {"recordings", Json::array()}, {"models", Json::array()}};
    out.data.columns = {{"recording"}, {"model"}, {"recall"}, {"counts"}, {"layer"}, {"head"}, {"score"}};
    for (const Score & one : scores) {
        const bool counts = one.recall > params.min_recall;
        Json       rows   = Json::array();
        for (size_t l = 0; l < one.layers.size(); l++) {
            rows.push_back(numbers(one.scores[l]));
            for (size_t h = 0; h < one.heads.size(); h++) {
                out.data.rows.push_back({one.path, one.model, one.recall, int64_t{counts ? 1 : 0},
                                         int64_t{one.layers[l]}, int64_t{one.heads[h]}, one.scores[l][h]});
            }
        }
        out.json["recordings"].push_back({{"recording", one.path},
                                          {"model", one.model},
                                          {"recall", one.recall},
                                          {"counts", counts},
                                          {"layers", one.layers},
                                          {"heads", one.heads},
                                          {"scores", std::move(rows)}});
        if (!counts) {
            out.notes.push_back(concat(printable(one.path), ": left out, the answer's ROUGE-1 recall is ", one.recall,
                                       " %, not above ", params.min_recall));
        }
    }
    for (const ModelScores & model : by_model(scores, params.min_recall)) {
        out.json["models"].push_back(model_json(model));
        out.tables.push_back(best_heads(model));
        out.figure.charts.emplace_back(map_of(model));
    }
    out.figure.title        = "Retrieval heads";
    out.figure.caption      = concat("How much of the gold span each head copies; answers with a ROUGE-1 recall above ",
                                     params.min_recall, " %.");
    out.figure.columns      = std::min<size_t>(out.figure.charts.size(), 2);
    out.figure.shared_scale = out.figure.charts.size() > 1;
    return out;
}

} // namespace buoy::analysis
