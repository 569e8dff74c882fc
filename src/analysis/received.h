#pragma once

#include "analysis/recording.h"
#include "buoy/edit.h"

#include <functional>
#include <optional>
#include <vector>

namespace buoy::analysis {

// Received attention A_j: the mean over heads and query rows of the softmax pattern's column j.
using Received = std::vector<double>; // [K]

// Of one recorded pattern, all its rows.
Received received_of(const Array & pattern, TapReduce reduce);

// The mean over heads [Q, K] of a pattern that is not reduced further.
Array mean_over_heads(Array pattern, TapReduce reduce);

// The layers asked for, or all; an Error names one that was not recorded.
std::vector<int32_t> choose_layers(const Recording & recording, const IndexRanges & ranges);

// Query rows of one recorded step, as indices into its rows.
struct StepRows {
    int32_t             step = 0;
    std::vector<size_t> rows;
};

// The pattern of the finished sequence: of each position the row that was computed last. Without a cache these are the rows of the
// last step; an autoregressive model's pattern is put together from the prompt's pass and one row of each later step.
std::vector<StepRows> finished_rows(const Recording & recording);

// The rows of one step, or of the finished sequence.
std::vector<StepRows> choose_rows(const Recording & recording, const std::optional<int32_t> & step);

// A_j over these rows for each layer. Reads their members once, in the file's order.
std::vector<Received> received_of_rows(const Recording & recording, const std::vector<int32_t> & layers,
                                       const std::vector<StepRows> & choice, const std::string & metric);

// A_j of each recorded step, its rows alone: visit(step, index of the layer, A), in the file's order. Steps without rows are left
// out.
void for_each_received(const Recording & recording, const std::vector<int32_t> & layers,
                       const std::optional<int32_t> & step, const std::string & metric,
                       const std::function<void(int32_t, size_t, const Received &)> & visit);

} // namespace buoy::analysis
