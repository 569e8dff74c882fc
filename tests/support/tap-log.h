#pragma once

#include "support/random-context.h"

#include <map>
#include <string>
#include <vector>

namespace buoy::test {

// One tap's activation of one sequence, copied.
struct Seen {
    std::array<int64_t, 3> shape{};
    std::vector<float>     data;

    float at(int64_t outer, int64_t middle, int64_t inner) const;
};

// What a pass shows, by tap_key().
using TapLog = std::map<std::string, Seen>;

std::string tap_key(const TapPoint & point, int32_t sequence = 0);

// Of each sequence of a pass, by its first observer.
TapLog observe(Context & context, Batch batch, const std::vector<TapPoint> & taps);

// Patterns and residual streams of all layers, and these taps, each kind one layer after the other.
std::map<Tap, std::vector<float>> watch_layers(Context & context, ForwardRequest request,
                                               const std::vector<TapPoint> & also = {});

// Of a residual stream that begins with the embeddings, what the blocks left.
std::vector<float> behind_blocks(const std::vector<float> & hidden, size_t n_layer);

// What a reduction must give, computed in double from the unreduced pattern of all heads and rows [H, T, K].
// row_positions are those of the T rows, key_positions those of the K columns.
Seen reduced(const Seen & pattern, TapReduce reduce, const TapSelection & selection,
             const std::vector<int32_t> & row_positions, const std::vector<int32_t> & key_positions);

} // namespace buoy::test
