// Passes that choose what they compute, in the engine and as caches: what is not computed costs nothing, what is computed is right.

#include "buoy/error.h"
#include "buoy/generate.h"
#include "buoy/record.h"
#include "buoy/recording.h"
#include "io/npz-reader.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int32_t n_layer = 3, T = 24, P = 8;

std::unique_ptr<Context> context_of(const char * arch = "llada") {
    ContextParams params = exact_params();
    params.n_ctx         = 64;
    params.n_threads     = 1;
    return random_context(small_model(arch), params);
}

// All of the sequence, with the logits of its last three rows.
ForwardRequest whole(const std::vector<int32_t> & tokens) {
    ForwardRequest request = stored_part(tokens, 0, static_cast<int32_t>(tokens.size()));
    request.rows           = {T - 3, T - 2, T - 1};
    return request;
}

ForwardRequest part_of(const std::vector<int32_t> & tokens, const std::vector<int32_t> & positions) {
    ForwardRequest request;
    request.kv        = KvUse::store;
    request.positions = positions;
    for (const int32_t position : positions) {
        request.tokens.push_back(tokens[static_cast<size_t>(position)]);
    }
    for (auto i = static_cast<int32_t>(positions.size()) - 3; i < static_cast<int32_t>(positions.size()); i++) {
        request.rows.push_back(i);
    }
    return request;
}

int64_t layer_rows(Context & context, const ForwardRequest & request) {
    const int64_t before = context.stats().n_layer_rows;
    context.forward(request);
    return context.stats().n_layer_rows - before;
}

PartialRefresh everything() { return {.n_prompt = P, .prompt = true, .answer = true}; }

} // namespace

TEST_CASE("a partial refresh of everything is a plain pass, and costs what it computes") {
    const auto           context  = context_of();
    std::vector<int32_t> tokens   = random_tokens(T, 250);
    ForwardRequest       request  = whole(tokens);
    const auto           expected = context->forward(request).logits;
    request.refresh               = everything();
    CHECK(layer_rows(*context, request) == n_layer * T);
    CHECK(max_abs_diff(context->forward(request).logits, expected) < 1e-4);

    // nothing has changed: what is left out is as it was, whatever is computed
    for (const int32_t n_drifted : {0, 1, 5, T - P}) {
        request.refresh = PartialRefresh{.n_prompt = P, .values = true, .n_drifted = n_drifted};
        CHECK(layer_rows(*context, request) == T + (n_layer - 1) * n_drifted);
        const ForwardResult result = context->forward(request);
        CHECK(max_abs_diff(result.logits, expected) < 1e-4);
        REQUIRE(result.refreshed.size() == n_layer - 1);
        CHECK(result.refreshed.at(1).size() == static_cast<size_t>(n_drifted));
    }
    request.refresh = PartialRefresh{.n_prompt = P};
    CHECK(layer_rows(*context, request) == T);
    CHECK(max_abs_diff(context->forward(request).logits, expected) < 1e-4);
}

TEST_CASE("a partial refresh finds the values that changed") {
    const auto           context = context_of();
    std::vector<int32_t> tokens  = random_tokens(T, 250);
    ForwardRequest       request = whole(tokens);
    request.refresh              = everything();
    context->forward(request);
    tokens[12] = (tokens[12] + 7) % 250;
    request    = whole(tokens);
    // its own value changes more than that of any position that only attends to it
    request.refresh = PartialRefresh{.n_prompt = P, .values = true, .n_drifted = 1};
    CHECK(context->forward(request).refreshed.at(1) == std::vector<int32_t>{12});
    // with all of them it is a pass without a store
    ForwardRequest plain = whole(tokens);
    plain.kv             = KvUse::none;
    const auto expected  = context->forward(plain).logits;
    request.refresh      = everything();
    CHECK(max_abs_diff(context->forward(request).logits, expected) < 1e-4);
}

TEST_CASE("a drift reset goes on with everything") {
    const auto           context = context_of();
    std::vector<int32_t> tokens  = random_tokens(T, 250);
    ForwardRequest       request = whole(tokens);
    request.reset                = DriftReset{};
    context->forward(request);

    const std::vector<int32_t> positions = {2, 5, 12, 21, 22, 23};
    tokens[12]                           = (tokens[12] + 7) % 250;
    const auto     n                     = static_cast<int64_t>(positions.size());
    ForwardRequest part                  = part_of(tokens, positions);

    part.reset = DriftReset{{2, 5}, -1.0f}; // never
    CHECK(layer_rows(*context, part) == (n_layer - 1) * n + 3);
    CHECK(!context->forward(part).reset_layer);

    request       = whole(random_tokens(T, 250));
    request.reset = DriftReset{};
    context->forward(request);
    part.reset = DriftReset{{2, 5}, 1.1f}; // always: from the second layer on everything
    CHECK(layer_rows(*context, part) == n + (n_layer - 2) * T + 3);
    CHECK(context->forward(part).reset_layer == 1);

    // the first layer stays as it was for the other rows, so this is exact where no token changed
    part       = part_of(random_tokens(T, 250), positions);
    part.reset = DriftReset{{2, 5}, 1.1f};
    context->forward(request);
    const auto result = context->forward(part).logits;
    request.kv        = KvUse::none;
    request.reset.reset();
    CHECK(max_abs_diff(result, context->forward(request).logits) < 1e-4);
}

TEST_CASE("passes that choose their rows say what they need") {
    const auto           context = context_of();
    std::vector<int32_t> tokens  = random_tokens(T, 250);
    ForwardRequest       request = whole(tokens);
    request.refresh              = PartialRefresh{.n_prompt = P, .values = true, .n_drifted = 2};
    CHECK_THROWS_WITH_AS(context->forward(request), doctest::Contains("needs one over all of them before it"), Error);
    ForwardRequest part = part_of(tokens, {1, 2, 3});
    part.reset          = DriftReset{{7}, 0.5f};
    CHECK_THROWS_WITH_AS(context->forward(part), doctest::Contains("position 7 is tracked"), Error);
    part.reset = DriftReset{{2}, 0.5f};
    CHECK_THROWS_AS(context->forward(part), Error);
    request.refresh->n_prompt = T;
    CHECK_THROWS_AS(context->forward(request), Error);
    request.refresh = everything();
    request.kv      = KvUse::none;
    CHECK_THROWS_AS(context->forward(request), Error);
}

TEST_CASE("adaptive caches that compute everything write what no cache does") {
    const std::vector<int32_t> prompt = random_tokens(P, 250);
    for (const char * arch : {"llada", "dream"}) {
        const auto     context = context_of(arch);
        GenerateParams params;
        params.n_predict         = 16;
        params.algorithm         = Algorithm::confidence;
        params.block_length      = 16;
        const Generation plain   = generate(*context, prompt, params);
        params.settings["sigma"] = {};
        for (const DiffusionCache cache : {DiffusionCache::d2, DiffusionCache::dllm}) {
            params.cache = cache;
            apply_setting(params, "rollout_p=1");
            apply_setting(params, "current_k=100");
            apply_setting(params, "kp=1");
            apply_setting(params, "kr=1");
            if (cache == DiffusionCache::d2 && std::string(arch) == "dream") {
                continue; // its rule never computes the prompt's last row but for the first mask
            }
            CHECK(generate(*context, prompt, params).sequence == plain.sequence);
        }
    }
}

// Attention is never 0, so a bound of 0 computes all that was not written just now or before.
TEST_CASE("cache anchor: what attends to nothing new is left out, and a bound of 0 leaves nothing out") {
    const std::vector<int32_t> prompt = random_tokens(P, 250);
    for (const char * arch : {"llada", "dream"}) {
        const auto     context = context_of(arch);
        GenerateParams params;
        params.n_predict       = 16;
        params.algorithm       = Algorithm::confidence;
        params.block_length    = 8;
        const Generation plain = generate(*context, prompt, params);
        params.cache           = DiffusionCache::anchor;
        apply_setting(params, "tau_stale=0");
        const Generation all = generate(*context, prompt, params);
        CHECK(all.sequence == plain.sequence);
        CHECK(all.steps.size() == plain.steps.size());
        for (size_t i = 1; i < all.steps.size(); i++) {
            CHECK(all.steps[i].computed.size() == static_cast<size_t>(P) + 16);
        }
        apply_setting(params, "tau_stale=1"); // no row is that stale at once
        const Generation least = generate(*context, prompt, params);
        REQUIRE(least.steps.size() > 2);
        CHECK(least.steps[0].computed.empty()); // all of them
        // the second pass: the masks of the block and what the first wrote, for shifted models the rows before the masks
        CHECK(least.steps[1].computed.size() <= 9);
        const int32_t written = least.steps[0].committed[0].first;
        CHECK(std::count(least.steps[1].computed.begin(), least.steps[1].computed.end(), written) == 1);
    }
}

TEST_CASE("a recording of an adaptive cache says which rows were computed") {
    const std::vector<int32_t> prompt = random_tokens(P, 250);
    TestModel                  where;
    where.path          = random_gguf(small_model("llada"));
    const auto    model = load_model(where.path, {});
    ContextParams sizes = exact_params();
    sizes.n_ctx         = 64;
    for (const DiffusionCache cache :
         {DiffusionCache::d2, DiffusionCache::elastic, DiffusionCache::dllm, DiffusionCache::anchor}) {
        const auto  context = model->make_context(sizes);
        RecordedRun run;
        run.prompt_tokens      = prompt;
        run.generate.n_predict = 12;
        run.generate.cache     = cache;
        RecordParams record;
        record.path  = temp_dir() + "/run.npz";
        record.force = true;
        record.type  = RecordType::f32;
        Recorder       recorder(record, model->info(), model->vocab(), run);
        GenerateParams params = run.generate;
        recorder.attach(params);
        const Generation out = generate(*context, prompt, params);
        recorder.finish();
        CHECK(std::filesystem::file_size(record.path) <= recorder.predicted_size());

        // looking changes nothing
        CHECK(out.sequence == generate(*context, prompt, run.generate).sequence);
        const NpzReader file = NpzReader::open(record.path);
        int64_t         rows = 0;
        for (const StepReport & step : out.steps) {
            char name[40];
            std::snprintf(name, sizeof(name), "computed/step_%04d.npy", step.step);
            NpyHeader                  header;
            const std::vector<int64_t> computed = file.read_ints(file.get(name), header);
            CHECK(header.shape == std::vector<int64_t>{n_layer, P + 12});
            rows += std::accumulate(computed.begin(), computed.end(), int64_t{0});
        }
        CHECK(rows < n_layer * (P + 12) * static_cast<int64_t>(out.steps.size()));
        const analysis::Recording recording = analysis::Recording::open(record.path);
        CHECK(recording.n_steps() == out.steps.size());
        CHECK(recording.read(Tap::pattern, recording.steps().back(), n_layer - 1).shape.size() == 2);
    }
}
