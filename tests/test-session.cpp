// A session: what it keeps, what it forgets, and what a generation says about its time.

#include "buoy/session.h"

#include "buoy/error.h"
#include "decode/generation-json.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace buoy;
using namespace buoy::test;

namespace {

std::unique_ptr<Context> context_of(const char * arch, int32_t block_length) {
    RandomModel model;
    model.arch           = arch;
    model.n_embd         = 32;
    model.block_length   = block_length;
    ContextParams params = exact_params();
    params.n_ctx         = 96;
    return random_context(model, params);
}

} // namespace

TEST_CASE("session: a generation that fails leaves nothing wrong behind") {
    for (const auto & [arch, block_length] : {std::pair("llama", 0), std::pair("sdar", 4), std::pair("llada", 0)}) {
        CAPTURE(std::string(arch));
        const auto     context = context_of(arch, block_length);
        const auto     first = random_tokens(20, 256), second = random_tokens(24, 256, 9);
        GenerateParams params;
        params.n_predict           = 12;
        const auto expected_first  = generate(*context, first, params).tokens;
        const auto expected_second = generate(*context, second, params).tokens;
        Session    session(*context);
        CHECK(session.generate(first, params).tokens == expected_first);
        const auto stored = session.stored();
        CHECK(stored.empty() == (std::string(arch) == "llada"));

        // refused before anything is computed: what is stored stays
        GenerateParams wrong = params;
        wrong.n_predict      = 90;
        CHECK_THROWS_AS(session.generate(first, wrong), Error);
        wrong           = params;
        wrong.threshold = 2.0f;
        CHECK_THROWS_AS(session.generate(first, wrong), Error);
        CHECK(session.stored() == stored);
        CHECK(session.generate(first, params).tokens == expected_first);

        // failed on the way, in the middle of another text
        for (int32_t failing = 0; failing < 6; failing += 2) {
            GenerateParams failed = params;
            failed.on_step        = [&](const StepReport & step, const std::vector<int32_t> &) {
                return step.step == failing ? throw std::runtime_error("no more") : true;
            };
            CHECK_THROWS_AS(session.generate(second, failed), std::runtime_error);
            CHECK(session.generate(first, params).tokens == expected_first);
            CHECK_THROWS_AS(session.generate(second, failed), std::runtime_error);
            CHECK(session.generate(second, params).tokens == expected_second);
        }

        // stopped while the prompt was read: what is there is known
        GenerateParams stopped = params;
        stopped.n_batch        = 4;
        stopped.on_prompt      = [](float done) { return done < 0.4f; };
        const auto third       = random_tokens(24, 256, 11);
        session.generate(third, stopped);
        CHECK(session.stored().size() < third.size());
        const auto after = session.generate(third, params).tokens;
        CHECK(after == generate(*context, third, params).tokens);
    }
}

TEST_CASE("session: what was looked at is computed anew, and not kept") {
    const auto     context = context_of("sdar", 4);
    const auto     prompt  = random_tokens(20, 256);
    Session        session(*context);
    GenerateParams params;
    params.n_predict    = 8;
    const auto expected = session.generate(prompt, params).tokens;
    CHECK(!session.stored().empty());
    size_t n_first    = 0;
    params.on_forward = [&](int32_t step, ForwardRequest & request) {
        n_first = step == 0 ? request.tokens.size() : n_first;
    };
    CHECK(session.generate(prompt, params).tokens == expected);
    CHECK(n_first >= prompt.size());
    CHECK(session.stored().empty());
}

TEST_CASE("only an autoregressive run's first token belongs to its prompt") {
    GenerateParams params;
    params.n_predict = 8;
    params.n_batch   = 4;
    for (const auto & [arch, block_length] : {std::pair("llama", 0), std::pair("sdar", 4), std::pair("llada", 0)}) {
        CAPTURE(std::string(arch));
        const auto       context = context_of(arch, block_length);
        const Generation out     = generate(*context, random_tokens(30, 256), params);
        const bool       causal  = std::string(arch) == "llama";
        CHECK((out.prompt_ms > 0.0) == (std::string(arch) != "llada")); // block-causal ones read a long prompt first
        REQUIRE(out.tokens.size() == 8);
        CHECK(out.n_decoded == (causal ? 7 : 8));
        CHECK(tokens_per_second(out) == doctest::Approx((causal ? 7 : 8) * 1000.0 / out.decode_ms));
    }
}
