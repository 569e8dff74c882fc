#pragma once

#include "eval/item.h"

#include <string>
#include <vector>

namespace buoy {

// The best of each score over the right answers; all 0 without any.
QaScores score_answer(const std::string & prediction, const std::vector<std::string> & answers);

// Does the text hold one of the answers, both normalised?
bool has_answer(const std::string & text, const std::vector<std::string> & answers);

} // namespace buoy
