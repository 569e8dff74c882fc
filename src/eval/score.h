#pragma once

#include "eval/item.h"

#include <string>
#include <vector>

namespace buoy {

// The best of each score over the right answers; all 0 without any.
QaScores score_answer(const std::string & prediction, const std::vector<std::string> & answers);

// Answers that are looked for in many texts.
class AnswerSearch {
public:
    explicit AnswerSearch(const std::vector<std::string> & answers);

    bool occurs_in(const std::string & text) const;

private:
    std::vector<std::string> normal_;
};

// Does the text hold one of the answers, both normalised?
bool has_answer(const std::string & text, const std::vector<std::string> & answers);

} // namespace buoy
