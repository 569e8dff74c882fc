#include "eval/score.h"

#include "eval/normalize.h"

#include <algorithm>
#include <map>

namespace buoy {

namespace {

using Words = std::vector<std::string>;

double f1_of(const Words & prediction, const Words & answer) {
    std::map<std::string, size_t> left;
    for (const std::string & word : answer) {
        left[word]++;
    }
    size_t n_same = 0;
    for (const std::string & word : prediction) {
        const auto found = left.find(word);
        if (found != left.end() && found->second > 0) {
            found->second--;
            n_same++;
        }
    }
    if (n_same == 0) {
        return 0.0;
    }
    const double precision = static_cast<double>(n_same) / static_cast<double>(prediction.size());
    const double recall    = static_cast<double>(n_same) / static_cast<double>(answer.size());
    return 2 * precision * recall / (precision + recall);
}

} // namespace

QaScores score_answer(const std::string & prediction, const std::vector<std::string> & answers) {
    const std::string said  = normalized_answer(prediction);
    const Words       words = normalized_words(prediction);
    QaScores          best;
    for (const std::string & answer : answers) {
        const std::string right = normalized_answer(answer);
        best.acc                = std::max(best.acc, said.find(right) != std::string::npos ? 1.0 : 0.0);
        best.em                 = std::max(best.em, said == right ? 1.0 : 0.0);
        best.f1                 = std::max(best.f1, f1_of(words, normalized_words(answer)));
    }
    return best;
}

AnswerSearch::AnswerSearch(const std::vector<std::string> & answers) {
    for (const std::string & answer : answers) {
        normal_.push_back(normalized_answer(answer));
    }
}

bool AnswerSearch::occurs_in(const std::string & text) const {
    const std::string normal = normalized_answer(text);
    return std::any_of(normal_.begin(), normal_.end(),
                       [&](const std::string & answer) { return normal.find(answer) != std::string::npos; });
}

bool has_answer(const std::string & text, const std::vector<std::string> & answers) {
    return AnswerSearch(answers).occurs_in(text);
}

} // namespace buoy
