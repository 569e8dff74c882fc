// Several texts generated in shared passes: each as if it were alone.

#include "buoy/error.h"
#include "buoy/generate.h"
#include "decode/decoder.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

using namespace buoy;
using namespace buoy::test;

namespace {

std::unique_ptr<Context> context_of(const char * arch, int32_t block_length, int32_t n_sequences) {
    RandomModel model;
    model.arch           = arch;
    model.n_embd         = 32;
    model.block_length   = block_length;
    ContextParams params = exact_params();
    params.n_ctx         = 96;
    params.n_sequences   = n_sequences;
    return random_context(model, params);
}

// Different lengths, settings and ends.
std::vector<BatchItem> eight_items(bool block_causal, bool causal) {
    std::vector<BatchItem> items(8);
    for (size_t i = 0; i < items.size(); i++) {
        items[i].prompt           = random_tokens(3 + 5 * i, 256, static_cast<uint32_t>(i) + 1);
        items[i].params.n_predict = 24 - static_cast<int32_t>(2 * i);
        items[i].params.seed      = i;
        items[i].params.n_batch   = 8; // long prompts take several passes
    }
    items[1].params.temperature = 0.8f;
    items[2].params.top_k       = 40;
    items[2].params.temperature = 1.2f;
    if (causal) {
        return items;
    }
    items[3].params.cfg_scale = 1.5f;
    items[4].params.threshold = 0.01f;
    items[5].params.steps     = 5;
    items[6].params.algorithm = Algorithm::random;
    items[6].params.alg_temp  = 0.5f;
    items[7].params.cfg_scale = 0.5f;
    if (!block_causal) {
        items[0].params.cache        = DiffusionCache::prefix;
        items[0].params.block_length = 6;
        items[5].params.cache        = DiffusionCache::dual;
        items[5].params.block_length = 8;
        items[7].params.cache        = DiffusionCache::dual;
    } else {
        items[6].params.cache = DiffusionCache::none;
    }
    return items;
}

void check_same(const Generation & a, const Generation & b) {
    CHECK(a.prompt == b.prompt);
    CHECK(a.sequence == b.sequence);
    CHECK(a.tokens == b.tokens);
    CHECK(a.n_forward == b.n_forward);
    CHECK(a.ended == b.ended);
    CHECK(a.stopped == b.stopped);
    REQUIRE(a.steps.size() == b.steps.size());
    for (size_t i = 0; i < a.steps.size(); i++) {
        CHECK(a.steps[i].committed == b.steps[i].committed);
    }
}

struct Family {
    const char * arch;
    int32_t      block_length;
};

const Family families[] = {{"llada", 0}, {"dream", 0}, {"llama", 0}, {"sdar", 4}, {"fast-dllm-v2", 8}};

} // namespace

TEST_CASE("batch: eight sequences are what each is alone") {
    for (const Family & family : families) {
        CAPTURE(std::string(family.arch));
        const auto                   alone = context_of(family.arch, family.block_length, 2);
        const std::vector<BatchItem> items = eight_items(family.block_length > 0, std::string(family.arch) == "llama");
        std::vector<Generation>      expected;
        for (const BatchItem & item : items) {
            expected.push_back(generate(*alone, item.prompt, item.params));
        }
        // all at once; some waiting for a place; one after the other
        for (int32_t n_sequences : {10, 3, 2}) {
            CAPTURE(n_sequences);
            const auto context = context_of(family.arch, family.block_length, n_sequences);
            const auto out     = generate_batch(*context, items);
            REQUIRE(out.size() == items.size());
            int64_t n_alone = 0;
            for (size_t i = 0; i < items.size(); i++) {
                CAPTURE(i);
                check_same(out[i], expected[i]);
                n_alone += expected[i].n_forward;
            }
            CHECK(context->stats().n_forward <= n_alone / (n_sequences == 10 ? 3 : 1)); // passes are shared
        }
    }
}

TEST_CASE("batch: an end and a stop leave the others alone") {
    const auto             context = context_of("sdar", 4, 4);
    std::vector<BatchItem> items(4);
    for (size_t i = 0; i < items.size(); i++) {
        items[i].prompt           = random_tokens(6, 256, static_cast<uint32_t>(i) + 1);
        items[i].params.n_predict = 16;
    }
    const auto all          = generate_batch(*context, items);
    items[1].params.end_ids = {all[1].tokens[5]};
    items[2].params.on_step = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 2; };
    const auto out          = generate_batch(*context, items);
    CHECK(out[0].tokens == all[0].tokens);
    CHECK(out[3].tokens == all[3].tokens);
    CHECK(out[1].ended);
    CHECK(out[1].n_forward < all[1].n_forward);
    CHECK(out[2].stopped);
    CHECK(out[2].steps.size() == 3);
    CHECK(generate_batch(*context, {}).empty());
}

TEST_CASE("batch: what can't be done is refused before anything is computed") {
    const auto             context = context_of("llada", 0, 1);
    std::vector<BatchItem> items(2);
    for (BatchItem & item : items) {
        item.prompt           = random_tokens(6, 256);
        item.params.n_predict = 8;
    }
    items[1].params.cfg_scale = 1.0f;
    CHECK_THROWS_WITH_AS(generate_batch(*context, items),
                         "classifier-free guidance needs two sequences, the context has 1", Error);
    CHECK_THROWS_WITH_AS(generate(*context, items[1].prompt, items[1].params),
                         "classifier-free guidance needs two sequences, the context has 1", Error);
    items[1].params.cfg_scale = 0.0f;
    items[1].params.n_predict = 200;
    CHECK_THROWS_AS(generate_batch(*context, items), Error);
    items[1].params.n_predict = 8;
    items[1].params.threshold = 3.0f;
    CHECK_THROWS_AS(generate_batch(*context, items), Error);
    CHECK(context->stats().n_forward == 0);
}

namespace {

// A schedule that looks at what its passes attend to, as those that unmask by attention will.
class Watching : public Schedule {
public:
    explicit Watching(std::unique_ptr<Schedule> inner) : inner_(std::move(inner)) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        auto pass = inner_->next(canvas);
        if (pass && pass->kind != PassKind::pause) {
            Observer observer;
            observer.taps = {{Tap::pattern, 1, TapReduce::heads}};
            observer.sink = [](const TapEvent & event) { seen.push_back(event.data[0]); };
            pass->observers.push_back(std::move(observer));
        }
        return pass;
    }

    static std::vector<float> seen;

private:
    std::unique_ptr<Schedule> inner_;
};

std::vector<float> Watching::seen;

std::unique_ptr<Schedule> make_watching(const DecodeSettings & settings, const GenerateParams & params,
                                        const Canvas & canvas) {
    return std::make_unique<Watching>(make_schedule(settings, params, canvas));
}

} // namespace

TEST_CASE("a schedule may look at its passes, beside others who look") {
    const auto         context = context_of("llada", 0, 1);
    const auto         prompt  = random_tokens(6, 256);
    std::vector<float> other;
    GenerateParams     params;
    params.n_predict    = 8;
    const auto expected = generate(*context, prompt, params);
    params.on_forward   = [&](int32_t, ForwardRequest & request) {
        Observer observer;
        observer.taps = {{Tap::pattern, 0, TapReduce::received}};
        observer.sink = [&](const TapEvent & event) { other.push_back(event.data[0]); };
        request.observers.push_back(std::move(observer));
    };
    generate(*context, prompt, params);
    const auto other_alone = other;
    other.clear();
    Decoder                     decoder(*context, {}, prompt, params, {}, make_watching);
    std::vector<ForwardRequest> batch;
    decoder.begin(*context);
    while (decoder.next(batch)) {
        decoder.take(context->forward(batch)[0]);
        batch.clear();
    }
    CHECK(decoder.finish().tokens == expected.tokens);
    CHECK(Watching::seen.size() == 8);
    CHECK(other == other_alone);
}
