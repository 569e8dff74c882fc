// The table of algorithms: what help and docs take from it, and that a program may bring an order of its own.

#include "buoy/algorithm.h"

#include "buoy/error.h"
#include "buoy/generate.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>

using namespace buoy;
using namespace buoy::test;

namespace {

std::unique_ptr<Context> context_of(const char * arch, int32_t block_length = 0) {
    RandomModel model;
    model.arch           = arch;
    model.n_embd         = 32;
    model.block_length   = block_length;
    ContextParams params = exact_params();
    params.n_ctx         = 128;
    return random_context(model, params);
}

void score_by_prob(std::span<Candidate> candidates, const BlockSpan &, int32_t) {
    for (Candidate & c : candidates) {
        c.score = c.prob;
    }
}

} // namespace

TEST_CASE("algorithms: a name, a number and the enumeration say the same") {
    const auto all = algorithms();
    CHECK(all.size() >= 9);
    for (size_t i = 0; i < all.size(); i++) {
        CHECK(static_cast<size_t>(all[i].algorithm) == i);
        CHECK(parse_algorithm(all[i].name) == all[i].algorithm);
        CHECK(std::string(algorithm_name(all[i].algorithm)) == all[i].name);
        CHECK(!std::string(all[i].help).empty());
        if (all[i].number >= 0) {
            CHECK(parse_algorithm(std::to_string(all[i].number)) == all[i].algorithm);
        }
    }
    CHECK_THROWS_AS(parse_algorithm("surest"), Error);
    CHECK_THROWS_AS(parse_algorithm("5"), Error); // only the first five have a number
    GenerateParams params;
    params.algorithm = Algorithm{static_cast<int32_t>(all.size())};
    CHECK_THROWS_AS(check_params(params), Error);
}

TEST_CASE("algorithms: docs/decoding.md has every one") {
    std::ifstream      file(source_dir() + "/docs/decoding.md");
    std::ostringstream text;
    text << file.rdbuf();
    for (const AlgorithmInfo & info : algorithms()) {
        CAPTURE(std::string(info.name));
        CHECK(text.str().find("\n| `" + std::string(info.name) + "` |") != std::string::npos);
    }
}

TEST_CASE("algorithms: a scorer that returns the probability is confidence") {
    for (const char * arch : {"llada", "dream", "sdar"}) {
        CAPTURE(std::string(arch));
        const auto     context = context_of(arch, std::string(arch) == "sdar" ? 4 : 0);
        const auto     prompt  = random_tokens(7, 256);
        GenerateParams params;
        params.n_predict = 20;
        params.steps     = 11;
        for (float alg_temp : {0.0f, 0.5f}) {
            params.alg_temp  = alg_temp;
            params.scorer    = nullptr;
            params.algorithm = Algorithm::confidence;
            const auto named = generate(*context, prompt, params);
            params.algorithm.reset();
            params.scorer  = score_by_prob;
            const auto own = generate(*context, prompt, params);
            CHECK(own.sequence == named.sequence);
            REQUIRE(own.steps.size() == named.steps.size());
            for (size_t i = 0; i < own.steps.size(); i++) {
                CHECK(own.steps[i].committed == named.steps[i].committed);
            }
        }
    }
}

TEST_CASE("algorithms: a scorer is heeded, and told what it needs") {
    const auto     context = context_of("llada");
    GenerateParams params;
    params.n_predict    = 12;
    params.block_length = 4;
    int32_t n_calls     = 0;
    params.scorer       = [&](std::span<Candidate> candidates, const BlockSpan & block, int32_t step) {
        CHECK(step == n_calls++);
        CHECK(block.to - block.from == 4);
        for (Candidate & c : candidates) {
            CHECK((c.position >= block.from && c.position < block.to));
            c.score = static_cast<float>(c.position); // from right to left
        }
    };
    const Generation out = generate(*context, random_tokens(5, 256), params);
    CHECK(n_calls == 12);
    CHECK(out.steps[0].committed[0].first == 8);
    CHECK(out.steps[3].committed[0].first == 5);
    CHECK(out.steps[4].committed[0].first == 12);

    params.algorithm = Algorithm::margin;
    CHECK_THROWS_WITH_AS(check_params(params), "a scorer replaces the algorithm; set only one of them", Error);
    params.algorithm.reset();
    params.scorer = [](std::span<Candidate> candidates, const BlockSpan &, int32_t) { candidates[0].score = NAN; };
    CHECK_THROWS_AS(generate(*context, random_tokens(5, 256), params), Error);
}
