#include "eval/summary.h"

#include "buoy/message.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;
using analysis::Cell;
using analysis::Table;

std::string percent(const QaMean & mean, bool sign = false) {
    if (mean.n == 0) {
        return "";
    }
    char text[80];
    if (std::isnan(mean.low)) { // a single answer has no interval
        std::snprintf(text, sizeof(text), sign ? "%+.1f" : "%.1f", 100 * mean.mean);
    } else {
        std::snprintf(text, sizeof(text), sign ? "%+.1f [%+.1f, %+.1f]" : "%.1f [%.1f, %.1f]", 100 * mean.mean,
                      100 * mean.low, 100 * mean.high);
    }
    return text;
}

Cell count(size_t n) { return static_cast<int64_t>(n); }

Json json_of(const QaMean & mean) {
    if (mean.n == 0) {
        return nullptr;
    }
    return {{"mean", mean.mean}, {"low", mean.low}, {"high", mean.high}, {"n", mean.n}}; // NaN is written as null
}

void add_columns(Table & table, const std::string & name) {
    for (const char * part : {"", "_low", "_high"}) {
        table.columns.push_back({name + part, 4});
    }
}

void add_cells(std::vector<Cell> & row, const QaMean & mean) {
    for (const double value : {mean.mean, mean.low, mean.high}) {
        row.emplace_back(mean.n > 0 ? value : std::nan(""));
    }
}

} // namespace

std::vector<Table> summary_tables(const QaSummary & summary) {
    const auto any      = [&](auto holds) { return std::any_of(summary.cells.begin(), summary.cells.end(), holds); };
    const bool gain     = any([](const QaCell & cell) { return cell.gain_acc.n > 0; });
    const bool misled   = any([](const QaCell & cell) { return cell.misled.n > 0; });
    const bool cut      = any([](const QaCell & cell) { return cell.n_cut > 0; });
    const bool too_long = any([](const QaCell & cell) { return cell.n_too_long > 0; });
    Table      scores;
    scores.title   = summary.dataset + ", % [95 % interval]";
    scores.columns = {{"model"}, {"condition"}, {"n"}, {"Acc"}, {"F1"}, {"EM"}};
    for (const auto & [wanted, name] :
         {std::make_pair(gain, "Acc over closed book"), {misled, "misled"}, {cut, "cut"}, {too_long, "too long"}}) {
        if (wanted) {
            scores.columns.push_back({name});
        }
    }
    for (const QaCell & cell : summary.cells) {
        std::vector<Cell> row = {cell.model,        cell.condition,   count(cell.n),
                                 percent(cell.acc), percent(cell.f1), percent(cell.em)};
        if (gain) {
            row.emplace_back(percent(cell.gain_acc, true));
        }
        if (misled) {
            row.emplace_back(percent(cell.misled));
        }
        if (cut) {
            row.emplace_back(count(cell.n_cut));
        }
        if (too_long) {
            row.emplace_back(count(cell.n_too_long));
        }
        scores.rows.push_back(row);
    }
    scores.n_keys             = 2;
    std::vector<Table> tables = {scores};
    if (!summary.differences.empty()) {
        Table differences;
        differences.title   = "first model minus second, same questions, % [95 % interval]";
        differences.columns = {{"models"}, {"condition"}, {"n"}, {"Acc"}, {"F1"}, {"EM"}};
        for (const QaDifference & d : summary.differences) {
            differences.rows.push_back({d.a + " - " + d.b, d.condition, count(d.acc.n), percent(d.acc, true),
                                        percent(d.f1, true), percent(d.em, true)});
        }
        differences.n_keys = 2;
        tables.push_back(differences);
    }
    return tables;
}

Table summary_csv(const QaSummary & summary) {
    Table table;
    table.columns = {{"model"}, {"minus"}, {"condition"}, {"n"}, {"cut"}, {"too_long"}};
    for (const char * name : {"acc", "f1", "em", "gain_acc", "gain_f1", "misled"}) {
        add_columns(table, name);
    }
    for (const QaCell & cell : summary.cells) {
        std::vector<Cell> row = {
            cell.model, "", cell.condition, count(cell.n), count(cell.n_cut), count(cell.n_too_long)};
        for (const QaMean & mean : {cell.acc, cell.f1, cell.em, cell.gain_acc, cell.gain_f1, cell.misled}) {
            add_cells(row, mean);
        }
        table.rows.push_back(row);
    }
    for (const QaDifference & d : summary.differences) {
        std::vector<Cell> row = {d.a, d.b, d.condition, count(d.acc.n), "", ""};
        for (const QaMean & mean : {d.acc, d.f1, d.em, QaMean(), QaMean(), QaMean()}) {
            add_cells(row, mean);
        }
        table.rows.push_back(row);
    }
    return table;
}

Json summary_json(const QaSummary & summary) {
    Json cells = Json::array(), differences = Json::array();
    for (const QaCell & cell : summary.cells) {
        cells.push_back({{"model", cell.model},
                         {"condition", cell.condition},
                         {"n", cell.n},
                         {"cut", cell.n_cut},
                         {"too_long", cell.n_too_long},
                         {"acc", json_of(cell.acc)},
                         {"f1", json_of(cell.f1)},
                         {"em", json_of(cell.em)},
                         {"gain_acc", json_of(cell.gain_acc)},
                         {"gain_f1", json_of(cell.gain_f1)},
                         {"misled", json_of(cell.misled)}});
    }
    for (const QaDifference & d : summary.differences) {
        differences.push_back({{"a", d.a},
                               {"b", d.b},
                               {"condition", d.condition},
                               {"acc", json_of(d.acc)},
                               {"f1", json_of(d.f1)},
                               {"em", json_of(d.em)}});
    }
    Json effects = Json::array();
    for (const QaEffect & e : summary.effects) {
        effects.push_back({{"model", e.model},
                           {"condition", e.condition},
                           {"base", e.base},
                           {"before", json_of(e.before)},
                           {"after", json_of(e.after)},
                           {"change", json_of(e.change)}});
    }
    return {{"dataset", summary.dataset},
            {"complete", summary.n_results == summary.n_expected},
            {"results", summary.n_results},
            {"expected", summary.n_expected},
            {"scores", cells},
            {"differences", differences},
            {"effects", effects},
            {"conclusions", summary_conclusions(summary)}};
}

std::vector<std::string> summary_conclusions(const QaSummary & summary) {
    std::vector<std::string> out;
    for (const QaEffect & e : summary.effects) {
        char text[400];
        if (e.change.mean == 0 && e.change.low == 0 &&
            e.change.high == 0) { // resampling zeros tells nothing of certainty
            std::snprintf(text, sizeof(text), "accuracy stays at %.1f %%: no score of the %zu questions changes",
                          100 * e.after.mean, e.change.n);
            out.push_back(concat(e.condition, ": ", e.model, ": ", text, "."));
            continue;
        }
        std::snprintf(text, sizeof(text), "%.1f %% of %zu questions right instead of %.1f %%: %s points",
                      100 * e.after.mean, e.change.n, 100 * e.before.mean, percent(e.change, true).c_str());
        const bool none = !(e.change.low > 0 || e.change.high < 0); // also without an interval
        out.push_back(concat(e.condition, ": ", e.model, " gets ", text, none ? "; the interval includes zero." : "."));
    }
    return out;
}

} // namespace buoy
