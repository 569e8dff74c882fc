#pragma once

#include "buoy/table.h"
#include "eval/result-file.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy {

// A mean with its 95 % interval (bootstrap); NaN where there is nothing to take it of.
struct QaMean {
    double mean = 0;
    double low  = 0;
    double high = 0;
    size_t n    = 0;
};

// A model under a condition.
struct QaCell {
    std::string model;
    std::string condition;
    size_t      n          = 0; // answers
    size_t      n_cut      = 0; // with passages that lost words
    size_t      n_too_long = 0; // without an answer, because the question does not fit
    QaMean      acc, f1, em;
    QaMean      gain_acc, gain_f1; // over closed book, of the same questions
    QaMean      misled;            // share of answers that hold what the contradicting passage says
};

// Model a minus model b, of the same questions.
struct QaDifference {
    std::string condition;
    std::string a, b;
    QaMean      acc, f1, em;
};

// What an edit of the attention does to a model: against the largest `passages`, of the same questions.
struct QaEffect {
    std::string model;
    std::string condition, base;
    QaMean      before, after, change; // Acc
};

struct QaSummary {
    std::string               dataset;
    std::vector<std::string>  models;
    std::vector<std::string>  conditions;
    size_t                    n_results  = 0;
    size_t                    n_expected = 0; // of a complete file
    std::vector<QaCell>       cells;          // models, then conditions
    std::vector<QaDifference> differences;
    std::vector<QaEffect>     effects;
};

// Intervals are drawn with a seed of their own, so a file has one summary.
QaSummary summarize(const std::string & path);

std::vector<analysis::Table> summary_tables(const QaSummary & summary); // to be read, in percent
analysis::Table              summary_csv(const QaSummary & summary); // a row for each cell and difference, shares of 1
nlohmann::ordered_json       summary_json(const QaSummary & summary);
std::vector<std::string>     summary_conclusions(const QaSummary & summary); // a sentence for each effect

} // namespace buoy
