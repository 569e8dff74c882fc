#pragma once

#include "decode/rule.h"

namespace buoy {

// Chooses which rows of a block's next pass are computed again.
class AdaptiveCache {
public:
    virtual ~AdaptiveCache() = default;

    // Adds the choice to a pass over the whole canvas; positions asked about may become more or fewer, but the block keeps one.
    virtual void prepare(const Canvas & canvas, Pass & pass) = 0;
    virtual void see(const RuleInput & /*in*/) {}
    virtual void report(StepReport & /*report*/) const {}
};

// Null where the cache does not adapt, or has a schedule of its own.
std::unique_ptr<AdaptiveCache> make_adaptive(const DecodeSettings & settings, const GenerateParams & params,
                                             const Canvas & canvas);

std::unique_ptr<AdaptiveCache> make_d2(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas);

std::unique_ptr<AdaptiveCache> make_anchor(const DecodeSettings & settings, const GenerateParams & params,
                                           const Canvas & canvas);

// How much is known around each position from `first` on, by a Gaussian of that width: what lies before counts as known, what lies
// behind as the last position does (d2Cache, arXiv 2509.23094).
std::vector<double> certainty_density(const Canvas & canvas, int32_t first, double sigma);

// The d2Cache repository's choice: confidence times certainty density.
std::unique_ptr<Rule> make_certainty(const RuleParams & in);

} // namespace buoy
