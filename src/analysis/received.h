#pragma once

#include "analysis/recording.h"
#include "buoy/index-ranges.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace buoy::analysis {

// Received attention A_j: the mean over heads and query rows of the softmax pattern's column j.
using Received = std::vector<double>; // [K]

// The mean over heads [Q, K] of a pattern that is not reduced further.
Array mean_over_heads(Array pattern, TapReduce reduce);

// The layers asked for, or all; an Error names one that was not recorded.
std::vector<int32_t> choose_layers(const Recording & recording, const IndexRanges & ranges);

// Query rows of one recorded step, as indices into its rows.
struct StepRows {
    int32_t             step = 0;
    std::vector<size_t> rows;
};

// The pattern as it stood after a step, or, without one, of the finished sequence: of each position the row that was computed last.
// Without a cache these are the rows of one pass; an autoregressive model's pattern is put together from the prompt's pass and one
// row of each later step. There is at least one row, else an Error.
std::vector<StepRows> latest_rows(const Recording & recording, const std::optional<int32_t> & step = std::nullopt);

// A_j over these rows for each layer. Reads their members once, in the file's order.
std::vector<Received> received_of_rows(const Recording & recording, const std::vector<int32_t> & layers,
                                       const std::vector<StepRows> & choice, const std::string & metric);

// A_j after each step, from the steps' patterns one after the other. Of the patterns only sums are kept: rows that the same later
// step computes again are added up and forgotten together, so that nothing is ever subtracted.
class ReceivedSoFar {
public:
    ReceivedSoFar(const Recording & recording, size_t n_layers, std::string metric);

    // Each layer of each recorded step that has rows, in order.
    Received add(int32_t step, size_t layer, const Array & pattern);

private:
    struct Part {
        int32_t             until = 0; // the step that computes these rows again
        std::vector<size_t> rows;
    };
    struct Sums {
        Received sums;
        size_t   n = 0;
    };

    const Recording &                    recording_;
    std::string                          metric_;
    std::map<int32_t, std::vector<Part>> parts_; // of a step
    std::vector<std::map<int32_t, Sums>> alive_; // of a layer, by Part::until
};

// A_j after each recorded step, or after one: visit(step, index of the layer, A), in the file's order. Steps that computed no rows
// are left out.
void for_each_received(const Recording & recording, const std::vector<int32_t> & layers,
                       const std::optional<int32_t> & step, const std::string & metric,
                       const std::function<void(int32_t, size_t, const Received &)> & visit);

} // namespace buoy::analysis
