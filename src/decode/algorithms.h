#pragma once

#include "buoy/generate.h"
#include "decode/random.h"

#include <vector>

namespace buoy {

// What a score may depend on besides the candidate.
struct ScoreInput {
    const GenerateParams & params;
    BlockSpan              block;
    const RandomSource &   random;
    int32_t                step = 0;

    double uniform(const Candidate & c) const {
        return random.uniform(static_cast<uint64_t>(step), static_cast<uint64_t>(c.position));
    }
};

// What the number of positions that an algorithm writes may depend on besides the candidates.
struct CountInput {
    const GenerateParams & params;
    float                  share        = 0.0f; // of the remaining masks, that a timestep writes
    bool                   block_causal = false;
};

enum class BlockUse {
    either,
    preferred, // a model made for timesteps gets blocks instead, unless timesteps are asked for
    required,
    never, // follows timesteps
};

// Everything decoding knows about an algorithm.
struct AlgorithmRow {
    AlgorithmInfo info;
    float (*score)(const Candidate & candidate, const ScoreInput & in); // larger is written earlier
    // scores that depend on each other; then all positions of the block are scored, written ones too
    void (*score_block)(std::span<Candidate> candidates, const ScoreInput & in) = nullptr;
    // how many of the ranked candidates to write; null: as the schedule says
    int32_t (*count)(const std::vector<Candidate> & ranked, const CountInput & in) = nullptr;

    int32_t  count_least = 1;     // that count can give
    bool     is_drawn    = false; // by chance alone, so that alg_temp has nothing to add
    BlockUse blocks      = BlockUse::either;

    // A bound on what a step writes, such as a threshold; not the draw of timesteps.
    bool is_bound() const { return count != nullptr && blocks != BlockUse::never; }
};

// Throws Error for what is not in the table.
const AlgorithmRow & algorithm_row(Algorithm algorithm);

} // namespace buoy
