// Block-causal decoding on random models: the stored blocks are exact, whatever the prompt and the batch.

#include "buoy/error.h"
#include "buoy/session.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

struct Family {
    const char * arch;
    int32_t      block_length;
};

const Family families[] = {{"sdar", 4},  {"sdar_moe", 6}, {"fast-dllm-v2", 8}, {"llada2", 8},
                           {"qwen3", 5}, {"llama", 4},    {"qwen3moe", 4}};

std::unique_ptr<Context> engine_of(const Family & family, int32_t n_ctx = 96) {
    RandomModel model;
    model.arch           = family.arch;
    model.block_length   = family.block_length;
    model.n_group        = std::string(family.arch) == "llada2" ? 4 : 0;
    ContextParams params = exact_params();
    params.n_ctx         = n_ctx;
    return random_context(model, params);
}

using Steps = std::vector<std::vector<std::pair<int32_t, int32_t>>>;

Steps steps_of(const Generation & out) {
    Steps steps;
    for (const StepReport & step : out.steps) {
        steps.push_back(step.committed);
    }
    return steps;
}

} // namespace

TEST_CASE("stored blocks give what computing everything gives") {
    for (const Family & family : families) {
        CAPTURE(std::string(family.arch));
        const auto    context = engine_of(family);
        const int32_t B       = context->info().traits.block_length;
        REQUIRE(context->info().traits.attention == AttentionKind::block_causal);
        REQUIRE(B == family.block_length);
        // from one token on: masks alone are all alike, and nothing but rounding would tell their rows apart
        for (int32_t n_prompt = 1; n_prompt <= 2 * B; n_prompt += n_prompt < B ? 1 : B / 2) {
            CAPTURE(n_prompt);
            const auto prompt = random_tokens(static_cast<size_t>(n_prompt), 256, static_cast<uint32_t>(n_prompt) + 7);
            GenerateParams params;
            params.n_predict = 2 * B + 1;
            params.threshold = 0.05f;
            params.cache     = DiffusionCache::none;
            Session          session(*context);
            const Generation all = session.generate(prompt, params);
            CHECK(session.stored().empty());
            CHECK(static_cast<int32_t>(all.tokens.size()) == params.n_predict);
            for (int32_t n_batch : {1, B + 1, 512}) {
                params.cache         = std::nullopt;
                params.n_batch       = n_batch;
                const Generation out = generate(*context, prompt, params);
                CHECK(out.sequence == all.sequence);
                CHECK(steps_of(out) == steps_of(all));
            }
        }
    }
}

TEST_CASE("every rule fills the answer, and stored blocks don't change it") {
    const auto rules = {
        +[](GenerateParams & p) { p.steps_per_block = 3; },
        +[](GenerateParams & p) { p.steps_per_block = 20; },
        +[](GenerateParams & p) { p.steps = 7; },
        +[](GenerateParams & p) { p.threshold = 0.02f, p.steps_per_block = 4; },
        +[](GenerateParams & p) { p.factor = 3.0f; },
        +[](GenerateParams & p) { p.algorithm = Algorithm::eb, p.eb_gamma = 20.0f; },
        +[](GenerateParams & p) { p.algorithm = Algorithm::sequential; },
        +[](GenerateParams & p) { p.algorithm = Algorithm::margin; },
        +[](GenerateParams & p) { p.sub_block_length = 3; },
        +[](GenerateParams & p) { p.block_length = 7; },
        +[](GenerateParams & p) { p.temperature = 0.8f, p.seed = 3; },
        +[](GenerateParams & p) { p.edit_threshold = 0.01f, p.threshold = 0.03f, p.post_steps = 3; },
    };
    for (const char * arch : {"llada2", "fast-dllm-v2"}) {
        const auto context = engine_of({arch, 8});
        int        index   = 0;
        for (const auto & rule : rules) {
            CAPTURE(std::string(arch));
            CAPTURE(index++);
            GenerateParams params;
            params.n_predict = 21;
            rule(params);
            const auto prompt = random_tokens(13, 256);
            if (params.edit_threshold && context->info().traits.shift) {
                CHECK_THROWS_AS(generate(*context, prompt, params), Error);
                continue;
            }
            const Generation out = generate(*context, prompt, params);
            CHECK(out.tokens.size() == 21);
            CHECK(std::count(out.sequence.begin(), out.sequence.end(), context->info().traits.mask_id) == 0);
            params.cache = DiffusionCache::none;
            CHECK(generate(*context, prompt, params).sequence == out.sequence);
        }
    }
}

TEST_CASE("a prompt that begins with what is stored computes the rest only") {
    for (const Family & family :
         {Family{"llada2", 8}, Family{"fast-dllm-v2", 8}, Family{"qwen3moe", 0}, Family{"llama", 0}}) {
        CAPTURE(std::string(family.arch));
        const auto     context = engine_of(family, 160);
        const bool     blocks  = family.block_length > 0;
        GenerateParams params;
        params.n_predict       = 16;
        const auto       first = random_tokens(40, 256);
        Session          session(*context);
        const Generation turn   = session.generate(first, params);
        const auto       stored = session.stored();
        CHECK(stored.size() >= 40);
        CHECK(std::equal(stored.begin(), stored.end(), turn.sequence.begin()));
        CHECK((!blocks || stored.size() % 8 == 0));
        // a prompt of whole blocks, and all of it stored
        CHECK(session.generate(first, params).tokens == turn.tokens);

        std::vector<int32_t> second = turn.sequence; // what was said, and a new question
        const auto           more   = random_tokens(9, 256, 5);
        second.insert(second.end(), more.begin(), more.end());
        const auto run = [&](Session & in) {
            const int64_t n_before = context->stats().n_tokens;
            auto          tokens   = in.generate(second, params).tokens;
            return std::make_pair(tokens, context->stats().n_tokens - n_before);
        };
        const auto run_anew = [&] {
            Session other(*context);
            return run(other);
        };
        const auto reused = run(session);
        const auto fresh  = run_anew();
        CHECK(reused.first == fresh.first);
        CHECK(reused.second + static_cast<int64_t>(stored.size()) == fresh.second);

        second[3] ^= 1; // another beginning: what is stored is of no use
        run_anew();
        Session again(*context);
        again.generate(first, params);
        CHECK(run(again).first == run_anew().first);
    }
}

TEST_CASE("generation ends behind an end token, and a stop is heeded") {
    const auto     context = engine_of({"sdar", 4});
    const auto     prompt  = random_tokens(6, 256);
    GenerateParams params;
    params.n_predict     = 24;
    const Generation all = generate(*context, prompt, params);
    params.end_ids       = {all.tokens[9]};
    const Generation cut = generate(*context, prompt, params);
    const auto       at  = std::find(all.tokens.begin(), all.tokens.end(), all.tokens[9]);
    CHECK(cut.ended);
    CHECK(cut.tokens == std::vector<int32_t>(all.tokens.begin(), at));
    CHECK(cut.n_forward < all.n_forward);

    params.end_ids           = {};
    params.on_step           = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 3; };
    const Generation stopped = generate(*context, prompt, params);
    CHECK(stopped.stopped);
    CHECK(stopped.steps.size() == 4);
    params.on_step   = nullptr;
    params.n_batch   = 4;
    params.on_prompt = [](float) { return false; };
    CHECK(generate(*context, random_tokens(30, 256), params).stopped);
}

TEST_CASE("what a kind of attention can't do is refused") {
    const auto blocks  = engine_of({"sdar", 4});
    const auto full    = engine_of({"llada", 0});
    const auto refused = [](Context & context, void (*set)(GenerateParams &)) {
        GenerateParams params;
        set(params);
        CHECK_THROWS_AS(check_params(params, context.info()), Error);
    };
    refused(*blocks, [](GenerateParams & p) { p.eps = 0.01f; });
    refused(*blocks, [](GenerateParams & p) { p.algorithm = Algorithm::origin; });
    refused(*blocks, [](GenerateParams & p) { p.cache_refresh = 2, p.cache = DiffusionCache::dual; });
    refused(*blocks, [](GenerateParams & p) { p.edit_threshold = 1.5f; });
    refused(*full, [](GenerateParams & p) { p.edit_threshold = 0.9f; });
    refused(*full, [](GenerateParams & p) { p.sub_block_length = 4; });
}
