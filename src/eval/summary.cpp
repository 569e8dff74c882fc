#include "eval/summary.h"

#include "analysis/statistics.h"
#include "buoy/error.h"
#include "buoy/parse.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace buoy {

namespace {

constexpr uint32_t bootstrap_seed = 1;

// The answers to one condition, by item.
struct Answers {
    std::map<size_t, QaScores> scores;
    std::vector<double>        misled;
    size_t                     n_cut      = 0;
    size_t                     n_too_long = 0;
};

using ByCondition = std::map<std::string, Answers>;

QaMean mean_of(const std::vector<double> & values) {
    const auto [low, high] = analysis::bootstrap_mean(values, bootstrap_seed);
    return {analysis::mean_of(values), low, high, values.size()};
}

QaMean mean_score(const Answers & answers, double QaScores::*score) {
    std::vector<double> values;
    for (const auto & [item, scores] : answers.scores) {
        values.push_back(scores.*score);
    }
    return mean_of(values);
}

// a minus b of the items that both have.
QaMean mean_difference(const Answers & a, const Answers & b, double QaScores::*score) {
    std::vector<double> values;
    for (const auto & [item, scores] : a.scores) {
        const auto other = b.scores.find(item);
        if (other != b.scores.end()) {
            values.push_back(scores.*score - other->second.*score);
        }
    }
    return mean_of(values);
}

QaCell make_cell(const std::string & model, const std::string & condition, const Answers & answers,
                 const Answers & closed_book) {
    QaCell cell;
    cell.model      = model;
    cell.condition  = condition;
    cell.n          = answers.scores.size();
    cell.n_cut      = answers.n_cut;
    cell.n_too_long = answers.n_too_long;
    cell.acc        = mean_score(answers, &QaScores::acc);
    cell.f1         = mean_score(answers, &QaScores::f1);
    cell.em         = mean_score(answers, &QaScores::em);
    cell.gain_acc   = mean_difference(answers, closed_book, &QaScores::acc);
    cell.gain_f1    = mean_difference(answers, closed_book, &QaScores::f1);
    cell.misled     = mean_of(answers.misled);
    return cell;
}

// "passages=10" of "passages=5", "passages=10"; empty without any.
std::string largest_passages(const std::vector<std::string> & conditions) {
    const std::string name = "passages=";
    std::string       found;
    size_t            most = 0;
    for (const std::string & condition : conditions) {
        const auto n =
            condition.rfind(name, 0) == 0 ? parse_number<size_t>(condition.substr(name.size())) : std::nullopt;
        if (n && *n >= most) {
            most  = *n;
            found = condition;
        }
    }
    return found;
}

// The answers to questions that the other has as well.
Answers common_answers(const Answers & of, const Answers & other) {
    Answers out;
    for (const auto & [item, scores] : of.scores) {
        if (other.scores.count(item) > 0) {
            out.scores[item] = scores;
        }
    }
    return out;
}

QaEffect make_effect(const std::string & model, const std::string & condition, const std::string & base,
                     ByCondition & columns) {
    const Answers before = common_answers(columns[base], columns[condition]);
    const Answers after  = common_answers(columns[condition], columns[base]);
    return {model,
            condition,
            base,
            mean_score(before, &QaScores::acc),
            mean_score(after, &QaScores::acc),
            mean_difference(after, before, &QaScores::acc)};
}

} // namespace

QaSummary summarize(const std::string & path) {
    ResultReader                       reader(path);
    const nlohmann::ordered_json &     settings = reader.header().settings;
    std::map<std::string, ByCondition> by_model;
    for (QaResult result; reader.next(result);) {
        Answers & answers           = by_model[result.model][result.condition];
        answers.scores[result.item] = result.scores;
        answers.n_cut += result.cut ? 1 : 0;
        answers.n_too_long += result.too_long ? 1 : 0;
        if (!result.false_answer.empty()) {
            answers.misled.push_back(result.misled ? 1.0 : 0.0);
        }
    }
    QaSummary out;
    out.dataset    = settings.at("dataset").at("name");
    out.n_results  = reader.n_read();
    out.n_expected = reader.header().n_results;
    for (const auto & model : settings.at("models")) {
        out.models.push_back(model.at("name"));
    }
    for (const auto & condition : settings.at("conditions")) {
        out.conditions.push_back(condition.at("name"));
    }
    for (const std::string & model : out.models) {
        for (const std::string & condition : out.conditions) {
            ByCondition & columns = by_model[model];
            if (columns.count(condition) > 0) {
                const bool is_base = condition == "closed-book";
                out.cells.push_back(
                    make_cell(model, condition, columns[condition], is_base ? Answers() : columns["closed-book"]));
            }
        }
    }
    const std::string base = largest_passages(out.conditions);
    for (const std::string & condition : out.conditions) {
        for (const std::string & model : out.models) {
            const QaEffect effect = make_effect(model, condition, base, by_model[model]);
            if (condition.rfind("edit=", 0) == 0 && effect.change.n > 0) {
                out.effects.push_back(effect);
            }
        }
        for (size_t a = 0; a < out.models.size(); a++) {
            for (size_t b = a + 1; b < out.models.size(); b++) {
                const Answers & first  = by_model[out.models[a]][condition];
                const Answers & second = by_model[out.models[b]][condition];
                const QaMean    acc    = mean_difference(first, second, &QaScores::acc);
                if (acc.n > 0) {
                    out.differences.push_back({condition, out.models[a], out.models[b], acc,
                                               mean_difference(first, second, &QaScores::f1),
                                               mean_difference(first, second, &QaScores::em)});
                }
            }
        }
    }
    return out;
}

} // namespace buoy
