// Several sequences in one pass: each as if it were alone, whatever the others are. And several contexts on one model.

#include "buoy/error.h"
#include "support/batch.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace buoy;
using namespace buoy::test;

namespace {

uint64_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) {
            return std::stoull(line.substr(6)) * 1024;
        }
    }
    return 0;
}

} // namespace

TEST_CASE("batch: sequences of different lengths equal single passes") {
    for (const RandomModel & model : attention_kinds()) {
        CAPTURE(model.arch);
        check_batch(*random_context(model, many_sequences()), *random_context(model, many_sequences()));
    }
}

TEST_CASE("batch: a pass may mix attention kinds, stores and outputs") {
    const auto together = random_context(small_model("llada"), many_sequences());
    const auto single   = random_context(small_model("llada"), many_sequences());
    auto       batch    = different_requests(KvUse::none);
    for (size_t s = 0; s < batch.size(); s++) {
        batch[s].attention    = s % 3 == 0   ? AttentionKind::full
                                : s % 3 == 1 ? AttentionKind::causal
                                             : AttentionKind::block_causal;
        batch[s].block_length = s % 3 == 2 ? 8 : 0;
        batch[s].kv           = s % 2 == 0 ? KvUse::store : KvUse::none;
        batch[s].output       = s % 4 == 1 ? OutputKind::summary : OutputKind::logits;
    }
    const std::vector<ForwardResult> actual = together->forward(batch);
    for (size_t s = 0; s < batch.size(); s++) {
        CAPTURE(s);
        single->kv_truncate(0, 0);
        const ForwardResult & expected = single->forward(alone(batch[s]));
        REQUIRE(actual[s].logits.size() == expected.logits.size());
        REQUIRE(actual[s].summaries.size() == expected.summaries.size());
        if (!expected.logits.empty()) {
            CHECK(nmse(actual[s].logits, expected.logits) <= batch_tolerance);
        }
        for (size_t row = 0; row < expected.summaries.size(); row++) {
            CHECK(actual[s].summaries[row].id == expected.summaries[row].id);
            CHECK(actual[s].summaries[row].prob == doctest::Approx(expected.summaries[row].prob).epsilon(1e-5));
        }
    }
}

TEST_CASE("batch: each sequence has its own taps and edits") {
    const auto together = random_context(small_model("llada"), many_sequences());
    const auto single   = random_context(small_model("llada"), many_sequences());
    auto       batch    = different_requests(KvUse::none);
    batch.erase(batch.begin() + 5);
    batch[1].edits                     = {{1, {}, {}, {batch[1].positions[0]}, 2.0f}};
    batch[2].edits                     = {{0, {1}, {}, {batch[2].positions[0]}, -3.0f}};
    observer(batch[2]).selection       = {{0, 2}, {}, {}};
    const std::vector<TapPoint> points = {
        {Tap::pattern, 0},     {Tap::pattern, 2},    {Tap::pattern, 1, TapReduce::received},
        {Tap::rot_q, 1},       {Tap::rot_k, 1},      {Tap::v, 2},
        {Tap::attn_scores, 1}, {Tap::resid_post, 2},
    };
    const TapLog seen = observe(*together, batch, points);
    for (size_t s = 0; s < batch.size(); s++) {
        const TapLog expected = observe(*single, alone(batch[s]), points);
        for (const TapPoint & point : points) {
            CAPTURE(tap_key(point, static_cast<int32_t>(s)));
            const Seen & a = seen.at(tap_key(point, static_cast<int32_t>(s)));
            const Seen & b = expected.at(tap_key(point));
            REQUIRE(a.shape == b.shape);
            double worst = 0.0;
            for (size_t i = 0; i < a.data.size(); i++) {
                worst =
                    a.data[i] == b.data[i] ? worst : std::max(worst, std::abs(double(a.data[i]) - double(b.data[i])));
            }
            CHECK(worst <= 1e-5);
        }
    }
}

TEST_CASE("batch: what is wrong with one is named, and nothing is computed") {
    const auto context = random_context(small_model("llada"), many_sequences());
    const auto refused = [&](const char * message, auto change) {
        auto batch = different_requests(KvUse::store);
        change(batch);
        CHECK_THROWS_WITH_AS(context->forward(batch), message, Error);
        CHECK(context->stats().n_forward == 0);
    };
    refused("sequence 1 is stored twice in one pass", [](auto & batch) { batch[3].sequence = 1; });
    refused("sequence 8 cannot be stored, the context has sequences 0 to 7",
            [](auto & batch) { batch[3].sequence = 8; });
    refused("classifier-free guidance needs two sequences of the same positions and rows", [](auto & batch) {
        batch[0].guidance = Guidance{1, 1.0f};
    });
    CHECK_THROWS_AS(context->forward(std::span<const ForwardRequest>()), Error);
    CHECK_THROWS_AS(context->kv_truncate(8, 0), Error);
}

TEST_CASE("a pass that fails leaves no cells marked as filled") {
    const auto context = random_context(small_model("llama"), many_sequences());
    const auto tokens  = random_tokens(24, 256);
    context->forward(stored_part(tokens, 0, 12));
    ForwardRequest failing = stored_part(tokens, 12, 24);
    observer(failing).taps = {{Tap::pattern, 1}};
    observer(failing).sink = [](const TapEvent &) { throw Error("the disk is full", ErrorKind::runtime); };
    CHECK_THROWS_AS(context->forward(failing), Error);

    // a key there would be seen by the next pass, which is behind it
    ForwardRequest next  = stored_part(tokens, 0, 1);
    next.positions       = {20};
    const TapLog seen    = observe(*context, next, {{Tap::pattern, 0, TapReduce::heads}});
    const Seen & pattern = seen.at(tap_key({Tap::pattern, 0, TapReduce::heads}));
    for (int32_t key = 12; key < 20; key++) {
        CHECK(pattern.at(0, 0, key) == 0.0f);
    }
}

TEST_CASE("a second context on a model adds hardly any memory") {
    RandomModel model;
    model.n_embd = 512, model.n_layer = 8, model.n_head = 8, model.n_vocab = 32000; // some 130 MB
    const auto loaded = load_model(random_gguf(model), {});
    const auto prompt = whole_request(random_tokens(16, 256));
    const auto first  = loaded->make_context({});
    first->forward(prompt);
    const uint64_t before = resident_bytes();
    if (before == 0) {
        return; // no /proc here
    }
    const auto second = loaded->make_context({});
    CHECK(second->forward(prompt).logits == first->forward(prompt).logits);
    const uint64_t after = resident_bytes();
    CHECK(static_cast<double>(after - std::min(before, after)) < 0.05 * static_cast<double>(loaded->info().n_bytes));
}
