#pragma once

#include "analysis/recording.h"

#include <string>
#include <vector>

namespace buoy::analysis {

// ROUGE-1 recall in percent: how many of the reference's words (letters and digits, lower case) the text has too, each as often
// as it occurs in both. NaN for a reference without words.
double rouge1_recall(const std::string & reference, const std::string & text);

// That of what was generated against the gold span's text; an Error without such a region.
double answer_recall(const Recording & recording, const std::string & gold);

// Retrieval scores [layer][head] (Wu et al. 2024): for each generated token, 1 / length of the gold span if the key that the head
// attends to most in the step and row that wrote it lies in the span and is the same token.
std::vector<std::vector<double>> retrieval_scores(const Recording & recording, const std::string & gold,
                                                  const std::vector<int32_t> & layers);

// Heads as the model numbers them.
std::vector<int32_t> recorded_heads(const Recording & recording);

} // namespace buoy::analysis
