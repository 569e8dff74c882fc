#pragma once

#include "buoy/table.h"
#include "eval/summary.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy {

// What was measured of the attention, over the answers of a model under a condition.
struct QaAttention {
    std::string                      model;
    std::string                      condition;
    size_t                           n           = 0; // answers
    size_t                           n_retrieval = 0; // of them, those that said most of the gold span
    std::vector<QaMean>              absorption;      // [L], percent
    std::vector<QaMean>              with_anchors;    // [L], share of the answers in which there is an anchor
    std::vector<QaMean>              gold;            // [L], share of the attention
    std::vector<QaMean>              correlation;     // [L], of attention on gold with being right; mean is r
    std::vector<std::vector<double>> retrieval;       // [L][H], mean score
    std::vector<std::string>         regions;         // those of any answer
    std::vector<std::vector<double>> rollout;         // [R][R], mean flow; NaN where no answer has both
};

// Models, then conditions; none where the attention was not measured.
std::vector<QaAttention> summarize_attention(const std::string & path);

std::vector<analysis::Table> attention_tables(const std::vector<QaAttention> & cells); // to be read
nlohmann::ordered_json       attention_json(const std::vector<QaAttention> & cells);

} // namespace buoy
