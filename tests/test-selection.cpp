#include "decode/selection.h"

#include "buoy/context.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace buoy;
using namespace buoy::test;

namespace {

std::vector<Candidate> with_entropies(const std::vector<float> & entropies) {
    std::vector<Candidate> candidates(entropies.size());
    for (size_t i = 0; i < entropies.size(); i++) {
        candidates[i].entropy = entropies[i];
    }
    return candidates;
}

} // namespace

TEST_CASE("the EB-sampler leaves the largest entropy out of its sum, SDAR does not") {
    const auto ranked =
        with_entropies({0.1f, 0.2f, 0.3f, 0.9f}); // sums 0.1 0.3 0.6 1.5, without the largest 0 0.1 0.3 0.6
    CHECK(count_by_entropy(ranked, 0.35f) == 3);
    CHECK(count_by_entropy_sum(ranked, 0.35f) == 2);
    CHECK(count_by_entropy(ranked, 0.0f) == 1);
    CHECK(count_by_entropy_sum(ranked, 0.0f) == 1);
    CHECK(count_by_entropy(ranked, 2.0f) == 4);
    CHECK(count_by_entropy_sum(ranked, 2.0f) == 4);
    CHECK(count_by_entropy_sum(with_entropies({0.25f, 0.25f}), 0.5f) == 1); // a sum that reaches the bound is too much
    CHECK(count_by_entropy(with_entropies({0.25f, 0.25f}), 0.25f) == 2);
}

TEST_CASE("a block-causal model's entropy bound is a sum over the positions of a step") {
    RandomModel model;
    model.arch             = "sdar";
    model.block_length     = 8;
    const auto     context = random_context(model);
    GenerateParams params;
    params.algorithm = Algorithm::eb;
    params.n_predict = 16;
    const auto log_v = static_cast<float>(std::log(model.n_vocab));

    const auto n_steps = [&](float gamma) {
        params.eb_gamma = gamma;
        return generate(*context, random_tokens(8, 256), params).steps.size();
    };
    CHECK(n_steps(0.0f) == 16);        // one a step
    CHECK(n_steps(8.0f * log_v) == 2); // no entropy is larger than ln V, so a bound of eight times that takes the block
    // untrained rows are close to even: two of them together pass this bound, without the larger one neither does
    CHECK(n_steps(1.5f * log_v) == 16);
}
