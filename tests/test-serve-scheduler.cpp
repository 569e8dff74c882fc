// Requests that share passes: each as if it were alone, none waiting for another's failure.

#include "buoy/error.h"
#include "serve/scheduler.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <future>

using namespace buoy;
using namespace buoy::serve;
using namespace buoy::test;

namespace {

std::unique_ptr<Context> context_of(const char * arch, int32_t block_length, int32_t n_sequences) {
    RandomModel model;
    model.arch           = arch;
    model.n_embd         = 32;
    model.block_length   = block_length;
    ContextParams params = exact_params();
    params.n_ctx         = 128;
    params.n_sequences   = n_sequences;
    return random_context(model, params);
}

struct Result {
    Generation         generation;
    std::exception_ptr error;
};

struct Asked {
    JobPtr              job = std::make_shared<Job>();
    std::future<Result> result;
};

Asked ask(size_t n_prompt, int32_t n_predict, uint32_t seed = 1) {
    Asked asked;
    asked.job->prompt           = random_tokens(n_prompt, 256, seed);
    asked.job->params.n_predict = n_predict;
    asked.job->params.seed      = seed;
    const auto promise          = std::make_shared<std::promise<Result>>();
    asked.result                = promise->get_future();
    asked.job->done             = [promise](Generation generation, std::exception_ptr error) {
        promise->set_value({std::move(generation), error});
    };
    return asked;
}

bool submit(Scheduler & scheduler, const Asked & asked) { return scheduler.submit(std::span(&asked.job, 1)); }

} // namespace

TEST_CASE("scheduler: every request has the tokens that it has alone") {
    for (const auto & [arch, block_length] : {std::pair("llama", 0), std::pair("sdar", 4), std::pair("llada", 0)}) {
        CAPTURE(std::string(arch));
        const auto         context = context_of(arch, block_length, 3), other = context_of(arch, block_length, 2);
        Scheduler          scheduler(*context, 100);
        std::vector<Asked> all;
        for (uint32_t i = 0; i < 12; i++) {
            all.push_back(ask(4 + 7 * (i % 4), 8 + static_cast<int32_t>(3 * (i % 5)), 1 + i % 6)); // some are the same
            all.back().job->params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
            if (std::string(arch) != "llama" && i % 5 == 0) {
                all.back().job->params.cfg_scale = 0.5f;
            }
            CHECK(submit(scheduler, all.back()));
        }
        for (Asked & one : all) {
            const Result result = one.result.get();
            CHECK(!result.error);
            CHECK(result.generation.tokens == generate(*other, one.job->prompt, one.job->params).tokens);
        }
        CHECK(scheduler.state().n_running == 0);
        CHECK(scheduler.state().n_passes < scheduler.state().n_steps);
    }
}

TEST_CASE("scheduler: a common beginning is computed once") {
    const auto context = context_of("sdar", 4, 2);
    Scheduler  scheduler(*context, 10);
    Asked      first = ask(64, 8);
    CHECK(submit(scheduler, first));
    first.result.get();
    const int64_t n_before = context->stats().n_tokens;
    Asked         second   = ask(64, 8);
    second.job->prompt.insert(second.job->prompt.end(), {5, 6, 7, 8});
    CHECK(submit(scheduler, second));
    const Result result = second.result.get();
    // 8 steps of a block, and what was not stored; 64 positions more without the store
    CHECK(context->stats().n_tokens - n_before < 60);
    const auto other = context_of("sdar", 4, 1);
    CHECK(result.generation.tokens == generate(*other, second.job->prompt, second.job->params).tokens);
}

TEST_CASE("scheduler: one that fails ends no other") {
    const auto context = context_of("llada", 0, 4), other = context_of("llada", 0, 1);
    Scheduler  scheduler(*context, 10);
    Asked      good = ask(10, 24), throws = ask(10, 24, 2), wrong = ask(10, 24, 3), edited = ask(10, 24, 4),
          long_one             = ask(120, 24, 5);
    throws.job->params.on_step = [](const StepReport & step, const std::vector<int32_t> &) -> bool {
        return step.step < 3 ? true : throw std::runtime_error("no more");
    };
    wrong.job->params.threshold   = 7.0f;
    edited.job->params.on_forward = [](int32_t step, ForwardRequest & request) { // leaves a query without any key
        if (step == 4) {
            AttentionEdit edit;
            edit.keys = range(0, 34);
            edit.bias = -std::numeric_limits<float>::infinity();
            request.edits.push_back(edit);
        }
    };
    for (Asked * one : {&good, &throws, &wrong, &edited, &long_one}) {
        CHECK(submit(scheduler, *one));
    }
    CHECK(!throws.result.get().error == false);
    CHECK(!wrong.result.get().error == false);
    CHECK(!edited.result.get().error == false);
    CHECK(!long_one.result.get().error == false);
    const Result result = good.result.get();
    CHECK(!result.error);
    CHECK(result.generation.tokens == generate(*other, good.job->prompt, good.job->params).tokens);
    CHECK(scheduler.state().n_failed == 4);
}

TEST_CASE("scheduler: a cancelled request ends after its step, and leaves its place") {
    const auto         context = context_of("llada", 0, 1);
    Scheduler          scheduler(*context, 10);
    Asked              running = ask(10, 64), waiting = ask(10, 8, 2), next = ask(10, 8, 3);
    std::promise<void> begun;
    running.job->params.on_step = [&](const StepReport & step, const std::vector<int32_t> &) {
        if (step.step == 2) {
            running.job->cancelled = true;
            waiting.job->cancelled = true;
        }
        return true;
    };
    for (Asked * one : {&running, &waiting, &next}) {
        CHECK(submit(scheduler, *one));
    }
    const Result stopped = running.result.get();
    CHECK(stopped.generation.stopped);
    CHECK(stopped.generation.steps.size() == 3);
    const Result never = waiting.result.get();
    CHECK(never.generation.stopped);
    CHECK(never.generation.steps.empty());
    CHECK(next.result.get().generation.tokens.size() == 8);
}

TEST_CASE("scheduler: the queue is bounded, and requests take turns") {
    const auto         context = context_of("llada", 0, 1);
    std::vector<int>   order;
    std::promise<void> go;
    auto               may_go = go.get_future().share();
    {
        Scheduler scheduler(*context, 4);
        Asked     first           = ask(10, 4);
        first.job->params.on_step = [may_go](const StepReport &, const std::vector<int32_t> &) {
            may_go.wait();
            return true;
        };
        CHECK(submit(scheduler, first));
        while (scheduler.state().n_running == 0) {
            std::this_thread::yield();
        }
        std::vector<Asked>  greedy;
        std::vector<JobPtr> jobs;
        for (int i = 0; i < 3; i++) {
            greedy.push_back(ask(10, 4));
            greedy.back().job->params.on_step = [&order](const StepReport & step, const std::vector<int32_t> &) {
                if (step.step == 0) {
                    order.push_back(1);
                }
                return true;
            };
            jobs.push_back(greedy.back().job);
        }
        CHECK(scheduler.submit(jobs));
        Asked modest               = ask(10, 4);
        modest.job->params.on_step = [&order](const StepReport & step, const std::vector<int32_t> &) {
            if (step.step == 0) {
                order.push_back(2);
            }
            return true;
        };
        CHECK(submit(scheduler, modest));
        CHECK(!submit(scheduler, ask(10, 4))); // four wait
        CHECK(scheduler.state().n_waiting == 4);
        go.set_value();
        modest.result.get();
        for (Asked & one : greedy) {
            one.result.get();
        }
    }
    CHECK(order == std::vector<int>{1, 2, 1, 1});
}

TEST_CASE("scheduler: when it goes away, everything ends") {
    const auto         context = context_of("llada", 0, 1);
    std::vector<Asked> all;
    {
        Scheduler scheduler(*context, 10);
        for (uint32_t i = 0; i < 3; i++) {
            all.push_back(ask(10, 100, i));
            CHECK(submit(scheduler, all.back()));
        }
    }
    for (Asked & one : all) {
        CHECK(one.result.get().generation.stopped);
    }
}
