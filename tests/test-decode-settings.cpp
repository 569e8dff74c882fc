// Which settings go together, and that those which do are followed.

#include "buoy/error.h"
#include "buoy/generate.h"
#include "decode/random.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int32_t mask_id = 260; // of a random model

std::unique_ptr<Context> engine_of(const std::string & arch) {
    RandomModel model;
    model.arch           = arch;
    model.n_embd         = 32;
    model.n_head         = 2;
    ContextParams params = exact_params();
    params.n_threads     = 1;
    params.n_ctx         = 2048;
    return random_context(model, params);
}

std::vector<size_t> counts_of(const Generation & out) {
    std::vector<size_t> counts;
    for (const StepReport & step : out.steps) {
        counts.push_back(step.committed.size());
    }
    return counts;
}

ModelInfo info_of(bool shift) {
    ModelInfo info;
    info.arch             = shift ? "dream" : "llada";
    info.n_vocab          = 320;
    info.traits.attention = AttentionKind::full;
    info.traits.shift     = shift;
    info.traits.mask_id   = mask_id;
    return info;
}

} // namespace

TEST_CASE("what no model can do is refused without one") {
    const auto refused = [](const std::string & part, const std::function<void(GenerateParams &)> & change) {
        CAPTURE(part);
        GenerateParams params;
        params.pc_table.n_total = 1;
        CHECK_NOTHROW(check_params(params));
        change(params);
        std::string message = "no error";
        try {
            check_params(params);
        } catch (const Error & error) {
            message = error.what();
        }
        CAPTURE(message);
        CHECK(message.find(part) != std::string::npos);
    };
    refused("can't be combined with blocks", [](auto & p) { p.eps = 0.1f, p.block_length = 4; });
    refused("can't be combined with blocks", [](auto & p) { p.eps = 0.1f, p.steps_per_block = 4; });
    refused("combined with factor or eb", [](auto & p) { p.eps = 0.1f, p.factor = 1.0f; });
    refused("combined with factor or eb", [](auto & p) { p.eps = 0.1f, p.algorithm = Algorithm::eb; });
    refused("pc-linear", [](auto & p) { p.eps = 0.1f, p.algorithm = Algorithm::pc_linear; });
    refused("each decide how many positions a step writes",
            [](auto & p) { p.threshold = 0.9f, p.algorithm = Algorithm::eb; });
    refused("each decide how many positions a step writes", [](auto & p) { p.threshold = 0.9f, p.factor = 1.0f; });
    refused("set the same thing", [](auto & p) { p.steps = p.steps_per_block = 4; });
    refused("origin", [](auto & p) { p.algorithm = Algorithm::origin, p.block_length = 4; });
    refused("origin", [](auto & p) { p.algorithm = Algorithm::origin, p.cache = DiffusionCache::dual; });
    refused("origin", [](auto & p) { p.algorithm = Algorithm::origin, p.threshold = 0.9f; });
    refused("needs a table", [](auto & p) { p.algorithm = Algorithm::pc, p.pc_table = {}; });
    refused("expected a number or -inf", [](auto & p) { p.logit_bias[5] = std::numeric_limits<float>::infinity(); });
    refused("is -2, expected", [](auto & p) { p.n_predict = -2; });
}

TEST_CASE("what a model can't do is refused before anything is computed") {
    GenerateParams params;
    params.cache = DiffusionCache::dual;
    params.eps   = 0.1f;
    CHECK_NOTHROW(check_params(params, info_of(true)));
    CHECK_THROWS_AS(check_params(params, info_of(false)), Error);
    params.block_length = 4;
    CHECK_NOTHROW(check_params(params));
    CHECK_NOTHROW(check_params(params, info_of(true)));
    params.eps.reset();
    params.factor = 1.0f;
    CHECK_THROWS_AS(check_params(params, info_of(true)), Error);
    CHECK_NOTHROW(check_params(params, info_of(false)));
    params                 = {};
    params.logit_bias[320] = 1.0f;
    CHECK_NOTHROW(check_params(params));
    CHECK_THROWS_AS(check_params(params, info_of(false)), Error);
    params                = {};
    params.cfg_scale      = 1.0f;
    ModelInfo info        = info_of(true);
    info.traits.attention = AttentionKind::causal;
    CHECK_THROWS_AS(check_params(params, info), Error);
}

TEST_CASE("an answer may take what the context has left") {
    GenerateParams params;
    params.n_predict = -1;
    CHECK(answer_length(params, 5, 16) == 11);
    CHECK_THROWS_AS(answer_length(params, 16, 16), Error);
    params.n_predict = 11;
    CHECK(answer_length(params, 5, 16) == 11);
    CHECK_THROWS_AS(answer_length(params, 6, 16), Error);

    params.n_predict = -1;
    params.steps     = 4;
    for (const char * arch : {"llada", "llama"}) {
        CHECK(generate(*engine_of(arch), random_tokens(2040, 256), params).sequence.size() == 2048);
    }
}

TEST_CASE("a shifted model with a cache takes timesteps in each block") {
    GenerateParams params;
    params.n_predict       = 16;
    params.block_length    = 8;
    params.steps_per_block = 4;
    params.cache           = DiffusionCache::dual;
    // t from 1 to eps: a block's first token on its own, then n·(1 − t(i+1)/t(i)), in the last step what is left
    params.eps = 0.6f; // 7/9 and 7/8 of a token are none
    CHECK(counts_of(generate(*engine_of("dream"), {1, 2, 3}, params)) == std::vector<size_t>{1, 0, 0, 7, 1, 0, 0, 7});
    params.eps = 0.001f;
    CHECK(counts_of(generate(*engine_of("dream"), {1, 2, 3}, params)) == std::vector<size_t>{1, 2, 2, 3, 1, 2, 2, 3});
}

TEST_CASE("a shifted model's threshold leaves the algorithm as it was asked for") {
    GenerateParams params;
    params.n_predict = 12;
    params.algorithm = Algorithm::random;
    params.threshold = 1.0f; // one a step, the algorithm's first
    params.seed      = 3;
    const RandomSource random(params.seed);
    for (const DiffusionCache cache : {DiffusionCache::none, DiffusionCache::dual}) {
        params.cache         = cache;
        const Generation out = generate(*engine_of("dream"), {1, 2, 3}, params);
        REQUIRE(out.steps.size() == 12);
        for (const StepReport & step : out.steps) {
            const auto drawn = [&](const auto & entry) {
                return random.uniform(static_cast<uint64_t>(step.step), static_cast<uint64_t>(entry.first));
            };
            const auto best = std::max_element(step.confidence.begin(), step.confidence.end(),
                                               [&](const auto & a, const auto & b) { return drawn(a) < drawn(b); });
            REQUIRE(step.committed.size() == 1);
            CHECK(step.committed[0].first == best->first);
        }
    }
}

TEST_CASE("the first pass of a block with a cache sees everything, also where it comes late") {
    std::vector<int32_t> text = random_tokens(24, 256);
    for (size_t gap = 9; gap < 16; gap++) { // the block begins with a given token, so no pass opens it
        text[gap] = mask_id;
    }
    text[2] = mask_id;
    GenerateParams params;
    params.n_predict    = 0;
    params.block_length = 6;  // from position 2: the second block is 8 to 13
    params.steps        = 40; // so many that the first writes nothing
    params.cache        = DiffusionCache::dual;
    std::vector<std::pair<int32_t, size_t>> passes; // where each begins and how long it is
    params.on_forward = [&](int32_t, ForwardRequest & request) {
        passes.emplace_back(request.positions[0], request.positions.size());
    };
    const Generation out = generate(*engine_of("dream"), text, params);
    CHECK(std::count(out.sequence.begin(), out.sequence.end(), mask_id) == 0);
    REQUIRE(passes.size() >= 3);
    CHECK(passes[0] == std::make_pair(0, size_t{24}));
    CHECK(passes[1] == std::make_pair(0, size_t{24}));
    CHECK(passes[2] == std::make_pair(8, size_t{6}));
}

TEST_CASE("taps of one pass are not those of the next") {
    GenerateParams params;
    params.n_predict = 4;
    std::vector<size_t> before;
    params.on_forward = [&](int32_t, ForwardRequest & request) {
        before.push_back(observer(request).taps.size());
        observer(request).taps.push_back({Tap::resid_post, 0});
        observer(request).sink = [](const TapEvent &) {};
    };
    for (const char * arch : {"llada", "llama"}) {
        before.clear();
        generate(*engine_of(arch), {1, 2, 3}, params);
        CHECK(before == std::vector<size_t>(4, 0));
    }
}

TEST_CASE("a long prompt can be left between its passes") {
    GenerateParams params;
    params.n_predict = 4;
    std::vector<float> told;
    params.on_prompt = [&](float done) {
        told.push_back(done);
        return true;
    };
    const auto context = engine_of("llama");
    const auto prompt  = random_tokens(1500, 256);
    CHECK(generate(*context, prompt, params).tokens.size() == 4);
    CHECK(told == std::vector<float>{512.0f / 1500.0f, 1024.0f / 1500.0f});

    params.on_prompt     = [](float) { return false; };
    const Generation out = generate(*context, prompt, params);
    CHECK(out.stopped);
    CHECK(out.n_forward == 1);
    CHECK(out.tokens.empty());
    CHECK(out.sequence == prompt);
}
