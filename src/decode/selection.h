#pragma once

#include "decode/algorithms.h"
#include "decode/schedule.h"

#include <cstdint>
#include <vector>

namespace buoy {

// Sets the candidates' scores, by the algorithm or the scorer that is in its place, and sorts them, largest first, ties by position.
// With alg_temp > 0 the order is a draw without replacement from softmax(score / alg_temp).
void rank(std::vector<Candidate> & candidates, Algorithm algorithm, const GenerateParams & params,
          const BlockSpan & block, const RandomSource & random, int32_t step);

// How many of the ranked candidates a pass writes; brings them to the front.
int32_t choose_count(std::vector<Candidate> & ranked, const DecodeSettings & settings, const GenerateParams & params,
                     const Pass & pass);

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
