#pragma once

#include "analysis/anchors.h"
#include "analysis/recording.h"
#include "buoy/figure.h"

#include <optional>
#include <string>
#include <vector>

namespace buoy::analysis {

// The finished sequence's pieces as labels of an axis.
std::vector<std::string> token_labels(const Recording & recording);

// Whether the pass of a step saw a mask there.
bool is_masked(const Recording & recording, int32_t step, size_t position);

// "0 <s>, 7 [mask]" for a few positions, "…" for more, as the pass of a step saw them; without a step, the finished sequence.
std::string positions_text(const Recording & recording, const std::vector<size_t> & positions,
                           std::optional<int32_t> step = {});

// The same of anchors; "none", and a fallback is called so.
std::string anchors_cell(const Recording & recording, const Anchors & anchors, std::optional<int32_t> step = {});

// Where the answer begins, as a line between the columns of a map of positions.
std::vector<figure::Separator> answer_separator(const Recording & recording);

// "layer 3", "mean of 12 layers, 0 to 11"
std::string layers_text(const std::vector<int32_t> & layers);

std::string base_name(const std::string & path);

} // namespace buoy::analysis
