// The plan of a run against what generate() really asks its engine for.

#include "decode/plan.h"

#include "buoy/step-count.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

// Per step: the first row, the number of rows and of keys; zeros for a step without a pass.
std::vector<PlannedStep> observe(Context & context, const std::vector<int32_t> & prompt, GenerateParams params) {
    std::vector<PlannedStep> steps;
    PlannedStep              now;
    params.on_forward = [&](int32_t, ForwardRequest & request) {
        const int32_t n        = static_cast<int32_t>(request.positions.size());
        observer(request).taps = {{Tap::pattern, 0, TapReduce::heads}};
        observer(request).sink = [&now, first = request.positions[0], n](const TapEvent & event) {
            now = {first, n, static_cast<int32_t>(event.shape[2])};
        };
    };
    params.on_step = [&](const StepReport &, const std::vector<int32_t> &) {
        steps.push_back(now);
        now = {};
        return true;
    };
    generate(context, prompt, params);
    return steps;
}

bool same(const PlannedStep & a, const PlannedStep & b) {
    return a.row_first == b.row_first && a.n_rows == b.n_rows && a.n_keys == b.n_keys;
}

void check_plan(const char * arch, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    RandomModel model;
    model.arch             = arch;
    model.n_embd           = 32;
    model.n_layer          = 1;
    ContextParams where    = exact_params();
    where.n_ctx            = 64;
    const auto     context = random_context(model, where);
    const StepPlan plan    = plan_steps(context->info(), prompt, params);
    const auto     real    = observe(*context, prompt, params);
    CHECK(step_count_max(context->info(), prompt, params) == static_cast<int64_t>(plan.steps.size()));
    CAPTURE(plan.steps.size());
    CAPTURE(real.size());
    if (!plan.open_ended) {
        REQUIRE(real.size() == plan.steps.size());
        for (size_t i = 0; i < real.size(); i++) {
            CAPTURE(i);
            CHECK(same(real[i], plan.steps[i]));
        }
        return;
    }
    // every real pass is one of those planned, in order
    auto at = plan.steps.begin();
    for (const PlannedStep & step : real) {
        if (step.n_rows > 0) {
            at = std::find_if(at, plan.steps.end(), [&](const PlannedStep & planned) { return same(planned, step); });
            REQUIRE(at != plan.steps.end());
            ++at;
        }
    }
}

std::vector<int32_t> given(size_t n) { return random_tokens(n, 256); }

} // namespace

TEST_CASE("step plan: LLaDA's blocks, with every cache") {
    for (DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
        CAPTURE(static_cast<int>(cache));
        GenerateParams params;
        params.n_predict = 14;
        params.cache     = cache;
        check_plan("llada", given(5), params);
        params.block_length = 4; // does not divide
        check_plan("llada", given(5), params);
        params.steps = 6;
        check_plan("llada", given(5), params);
        params.steps         = 40; // more than tokens
        params.cache_refresh = 2;
        check_plan("llada", given(5), params);
        params.steps           = 0;
        params.steps_per_block = 3;
        check_plan("llada", given(5), params);
        params.steps_per_block = 0;
        params.threshold       = 0.004f;
        check_plan("llada", given(5), params);
    }
}

TEST_CASE("step plan: masks inside the prompt") {
    const auto           context = random_context({});
    std::vector<int32_t> prompt  = given(12);
    for (size_t i : {3, 4, 9}) {
        prompt[i] = context->info().traits.mask_id;
    }
    GenerateParams params;
    params.n_predict = 0;
    check_plan("llada", prompt, params);
    params.n_predict    = 6;
    params.block_length = 5;
    check_plan("llada", prompt, params);
}

TEST_CASE("step plan: Dream's timesteps, alone and within blocks") {
    GenerateParams params;
    params.n_predict = 12;
    check_plan("dream", given(5), params);
    params.steps = 5;
    check_plan("dream", given(5), params);
    params.steps = 30;
    check_plan("dream", given(5), params);
    params.algorithm = Algorithm::origin;
    check_plan("dream", given(5), params);
    params.algorithm.reset();
    params.threshold = 0.004f;
    check_plan("dream", given(5), params);
    for (DiffusionCache cache : {DiffusionCache::prefix, DiffusionCache::dual}) {
        GenerateParams cached;
        cached.n_predict    = 12;
        cached.block_length = 5;
        cached.cache        = cache;
        check_plan("dream", given(5), cached);
        cached.steps = 8;
        check_plan("dream", given(5), cached);
        cached.steps     = 0;
        cached.threshold = 0.004f;
        check_plan("dream", given(5), cached);
    }
}

TEST_CASE("step plan: block-causal models, with and without stored blocks") {
    for (const char * arch : {"sdar", "fast-dllm-v2"}) {
        for (DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix}) {
            for (size_t n_prompt : {3, 8}) {
                CAPTURE(std::string(arch));
                CAPTURE(static_cast<int>(cache));
                CAPTURE(n_prompt);
                GenerateParams params;
                params.n_predict    = 16 - static_cast<int32_t>(n_prompt % 8);
                params.block_length = 8;
                params.cache        = cache;
                check_plan(arch, given(n_prompt), params);
                params.steps_per_block = 3;
                check_plan(arch, given(n_prompt), params);
                params.steps_per_block = 11; // more than tokens
                check_plan(arch, given(n_prompt), params);
                params.n_predict -= 3; // the last block is not wanted whole
                check_plan(arch, given(n_prompt), params);
                params.steps_per_block = 0;
                params.threshold       = 0.004f;
                check_plan(arch, given(n_prompt), params);
            }
        }
    }
    GenerateParams edited;
    edited.n_predict      = 12;
    edited.edit_threshold = 0.004f;
    edited.post_steps     = 3;
    check_plan("sdar", given(5), edited);
}

TEST_CASE("step plan: one token after the other") {
    GenerateParams params;
    params.n_predict = 7;
    check_plan("llama", given(5), params);
}
