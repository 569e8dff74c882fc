#include "decode/selection.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

// −p·ln f, at most alpha (arXiv 2508.13021, eq. 5): a confident but frequent token counts for less.
float calibrated(const Candidate & c, const GenerateParams & params) {
    const auto   listed = params.pc_table.counts.find(c.id);
    const double count  = listed != params.pc_table.counts.end() ? static_cast<double>(listed->second) : 1.0;
    const double share  = count / static_cast<double>(params.pc_table.n_total);
    return std::min(params.pc_alpha, static_cast<float>(-static_cast<double>(c.prob) * std::log(share + 1e-9)));
}

float score_of(const Candidate & c, Algorithm algorithm, const GenerateParams & params, const BlockSpan & block) {
    switch (algorithm) {
        case Algorithm::confidence: return c.prob;
        case Algorithm::margin: return c.margin;
        case Algorithm::entropy:
        case Algorithm::eb: return -c.entropy;
        case Algorithm::pc:
            return std::exp(-params.pc_lambda * static_cast<float>(c.position - block.from)) * calibrated(c, params);
        case Algorithm::pc_linear: return calibrated(c, params); // normalised over the block below
        case Algorithm::sequential: return -static_cast<float>(c.position - block.from);
        case Algorithm::origin:
        case Algorithm::random: return 0.0f; // drawn below
    }
    return 0.0f;
}

// (1 − λ)·normalised score + λ·(B − j)/B over all positions of the block.
void mix_position(std::vector<Candidate> & candidates, float lambda, const BlockSpan & block) {
    const auto [lowest, highest] =
        std::minmax_element(candidates.begin(), candidates.end(),
                            [](const Candidate & a, const Candidate & b) { return a.score < b.score; });
    const float low = lowest->score, range = highest->score - lowest->score;
    const auto  B = static_cast<float>(block.to - block.from);
    for (Candidate & c : candidates) {
        const float normalised = range > 0.0f ? (c.score - low) / range : 0.0f;
        c.score = (1.0f - lambda) * normalised + lambda * (B - static_cast<float>(c.position - block.from)) / B;
    }
}

} // namespace

void rank(std::vector<Candidate> & candidates, Algorithm algorithm, const GenerateParams & params,
          const BlockSpan & block, const RandomSource & random, int32_t step) {
    if (candidates.empty()) {
        return;
    }
    const auto drawn = [&](const Candidate & c) {
        return random.uniform(static_cast<uint64_t>(step), static_cast<uint64_t>(c.position));
    };
    for (Candidate & c : candidates) {
        c.score = score_of(c, algorithm, params, block);
    }
    if (algorithm == Algorithm::pc_linear) {
        mix_position(candidates, params.pc_lambda, block);
    }
    for (Candidate & c : candidates) {
        if (algorithm == Algorithm::random || algorithm == Algorithm::origin) {
            c.score = static_cast<float>(drawn(c));
        } else if (params.alg_temp > 0.0f) {
            // Gumbel-top-k: the k largest of score / T + g are a draw of k without replacement
            c.score = c.score / params.alg_temp - static_cast<float>(std::log(-std::log(drawn(c))));
        }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate & a, const Candidate & b) {
        return a.score != b.score ? a.score > b.score : a.position < b.position;
    });
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
