#include "decode/selection.h"

#include "buoy/message.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

// The scores of a program's own scorer, which may be anything but no number.
void score_by(const Scorer & scorer, std::vector<Candidate> & candidates, const BlockSpan & block, int32_t step) {
    scorer(candidates, block, step);
    for (const Candidate & c : candidates) {
        if (std::isnan(c.score)) {
            fail("the scorer's score of position ", c.position, " is not a number");
        }
    }
}

} // namespace

void rank(std::vector<Candidate> & candidates, Algorithm algorithm, const GenerateParams & params,
          const BlockSpan & block, const RandomSource & random, int32_t step) {
    if (candidates.empty()) {
        return;
    }
    const AlgorithmRow & row      = algorithm_row(algorithm);
    const ScoreInput     in       = {params, block, random, step};
    const bool           is_drawn = row.is_drawn && !params.scorer;
    if (params.scorer) {
        score_by(params.scorer, candidates, block, step);
    } else {
        for (Candidate & c : candidates) {
            c.score = row.score(c, in);
        }
        if (row.score_block != nullptr) {
            row.score_block(candidates, in);
        }
    }
    if (params.alg_temp > 0.0f && !is_drawn) {
        for (Candidate & c : candidates) {
            // Gumbel-top-k: the k largest of score / T + g are a draw of k without replacement
            c.score = c.score / params.alg_temp - static_cast<float>(std::log(-std::log(in.uniform(c))));
        }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate & a, const Candidate & b) {
        return a.score != b.score ? a.score > b.score : a.position < b.position;
    });
}

int32_t choose_count(std::vector<Candidate> & ranked, const DecodeSettings & settings, const GenerateParams & params,
                     const Pass & pass) {
    if (ranked.empty()) {
        return 0;
    }
    if (params.threshold) {
        return settings.is_block_causal() && !settings.exact_blocks ? keep_surer(ranked, *params.threshold, pass.due)
                                                                    : keep_above(ranked, *params.threshold);
    }
    if (params.factor) {
        return count_by_factor(ranked, *params.factor);
    }
    const AlgorithmRow & row = algorithm_row(settings.algorithm);
    return row.count != nullptr ? row.count(ranked, {params, pass.share, settings.is_block_causal()}) : pass.due;
}

int32_t keep_above(std::vector<Candidate> & ranked, float threshold) {
    const auto kept = std::stable_partition(ranked.begin() + 1, ranked.end(),
                                            [&](const Candidate & c) { return c.prob >= threshold; });
    return static_cast<int32_t>(kept - ranked.begin());
}

int32_t keep_surer(std::vector<Candidate> & ranked, float threshold, int32_t n_due) {
    const auto sure = [&](const Candidate & c) { return c.prob > threshold; };
    const auto n    = static_cast<int32_t>(std::count_if(ranked.begin(), ranked.end(), sure));
    if (n < n_due) {
        return n_due;
    }
    std::stable_partition(ranked.begin(), ranked.end(), sure);
    return n;
}

// The first candidate always passes; the one at index i passes while c_i >= 1 − factor / (i + 2). As the reference does it, a
// failing last candidate is written too when all others passed.
int32_t count_by_factor(const std::vector<Candidate> & ranked, float factor) {
    const auto last = static_cast<int32_t>(ranked.size()) - 1;
    int32_t    i    = 1;
    while (i <= last &&
           static_cast<double>(ranked[static_cast<size_t>(i)].prob) >= 1.0 - static_cast<double>(factor) / (i + 2)) {
        i++;
    }
    i = std::min(i, last); // the last index if none fails
    return i == 0 || i == last ? i + 1 : i;
}

int32_t count_by_entropy(const std::vector<Candidate> & ranked, float gamma) {
    double  sum = 0.0, largest = 0.0;
    int32_t n = 0;
    for (const Candidate & c : ranked) {
        sum += static_cast<double>(c.entropy);
        largest = std::max(largest, static_cast<double>(c.entropy));
        if (sum - largest > static_cast<double>(gamma)) {
            break;
        }
        n++;
    }
    return std::max(1, n);
}

int32_t count_by_entropy_sum(const std::vector<Candidate> & ranked, float gamma) {
    double  sum = 0.0;
    int32_t n   = 0;
    for (const Candidate & c : ranked) {
        sum += static_cast<double>(c.entropy);
        if (sum >= static_cast<double>(gamma)) {
            break;
        }
        n++;
    }
    return std::max(1, n);
}

} // namespace buoy
