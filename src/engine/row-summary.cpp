#include "engine/row-summary.h"

#include <cmath>
#include <utility>

namespace buoy {

RowSummary summarize_row(const float * logits, size_t n_vocab) {
    size_t best   = 0;
    size_t second = n_vocab > 1 ? 1 : 0;
    if (logits[second] > logits[best]) {
        std::swap(best, second);
    }
    for (size_t i = 2; i < n_vocab; i++) {
        if (logits[i] > logits[best]) {
            second = best;
            best   = i;
        } else if (logits[i] > logits[second]) {
            second = i;
        }
    }
    // H = ln Z − Σ p·(logit − max), with Z summed relative to the maximum
    double sum      = 0.0;
    double weighted = 0.0;
    for (size_t i = 0; i < n_vocab; i++) {
        const double below = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
        const double e     = std::exp(below);
        sum += e;
        weighted += e > 0.0 ? e * below : 0.0;
    }
    const double prob        = 1.0 / sum;
    const double prob_second = std::exp(static_cast<double>(logits[second]) - static_cast<double>(logits[best])) / sum;

    RowSummary row;
    row.id        = static_cast<int32_t>(best);
    row.second_id = static_cast<int32_t>(second);
    row.prob      = static_cast<float>(prob);
    row.margin    = n_vocab > 1 ? static_cast<float>(prob - prob_second) : 1.0f;
    row.entropy   = static_cast<float>(std::log(sum) - weighted / sum);
    row.drawn_id  = row.id;
    return row;
}

} // namespace buoy
