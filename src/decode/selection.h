#pragma once

#include "buoy/generate.h"
#include "decode/candidate.h"
#include "decode/random.h"

#include <cstdint>
#include <vector>

namespace buoy {

// LLaDA's uniform schedule: of n masks in n_steps, step i writes n / n_steps, the first n % n_steps steps one more.
inline int32_t transfer_count(int32_t n, int32_t n_steps, int32_t step) {
    return n / n_steps + (step < n % n_steps ? 1 : 0);
}

// The block a score is relative to: Algorithm::pc prefers its beginning.
struct BlockSpan {
    int32_t from = 0;
    int32_t to   = 0;
};

// Sets the candidates' scores and sorts them, largest first, ties by position. With alg_temp > 0 the order is a draw without
// replacement from softmax(score / alg_temp).
void rank(std::vector<Candidate> & candidates, Algorithm algorithm, const GenerateParams & params,
          const BlockSpan & block, const RandomSource & random, int32_t step);

// How many of the ranked candidates to write.
// Fast-dLLM's threshold: brings the first and all others with at least that probability to the front.
int32_t keep_above(std::vector<Candidate> & ranked, float threshold);
// SDAR's dynamic rule: brings all surer than that to the front, if they are at least as many as are due; else the first n_due.
int32_t keep_surer(std::vector<Candidate> & ranked, float threshold, int32_t n_due);
int32_t count_by_factor(const std::vector<Candidate> & ranked, float factor); // Fast-dLLM: (n + 1)(1 − c_n) < factor
int32_t count_by_entropy(const std::vector<Candidate> & ranked,
                         float                          gamma); // EB-sampler: cumsum − cummax <= gamma, one at least
// SDAR's entropy_bounded: cumsum < gamma, one at least.
int32_t count_by_entropy_sum(const std::vector<Candidate> & ranked, float gamma);

} // namespace buoy
