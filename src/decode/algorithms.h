#pragma once

#include "buoy/generate.h"
#include "decode/random.h"

#include <memory>
#include <optional>
#include <vector>

namespace buoy {

class Rule;
struct RuleParams;

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
    bool     serves      = false; // decides about a block as a whole, in a schedule of its own

    // chooses in place of score and count
    std::unique_ptr<Rule> (*rule)(const RuleParams & in) = nullptr;
    std::optional<float> threshold    = std::nullopt; // a rule's own use of the threshold: its default
    bool                 takes_back   = false; // a rule may mask again what it wrote, so a block counts once it is full
    bool                 counts_steps = false; // a rule writes what the steps make due where it finds nothing better
    bool                 sees_all     = false; // a rule needs every row of every pass, so it can't have a cache

    // A bound on what a step writes, such as a threshold; not the draw of timesteps.
    bool is_bound() const { return (count != nullptr && blocks != BlockUse::never) || rule != nullptr; }
};

// Throws Error for what is not in the table.
const AlgorithmRow & algorithm_row(Algorithm algorithm);

} // namespace buoy
