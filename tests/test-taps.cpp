// What taps promise on random models: reductions and selections, cached passes, streams, memory, graph reuse.

#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/message.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

const std::vector<TapReduce> all_reductions = {TapReduce::none, TapReduce::heads, TapReduce::received,
                                               TapReduce::regions};

std::vector<TapPoint> pattern_points(int32_t layer, const std::vector<TapReduce> & reductions) {
    std::vector<TapPoint> points;
    for (TapReduce reduce : reductions) {
        points.push_back({Tap::pattern, layer, reduce});
    }
    return points;
}

// Every reduction of the request's selection against sums over the whole pattern.
void check_reductions(Context & context, Batch batch, int32_t n_keys) {
    const TapSelection         selection = observer(batch[0]).selection;
    const std::vector<int32_t> keys      = range(0, n_keys);
    const std::vector<int32_t> rows =
        batch[0].positions.empty() ? range(0, static_cast<int32_t>(batch[0].tokens.size())) : batch[0].positions;
    const auto select = [&](const TapSelection & chosen) {
        for (ForwardRequest & request : batch) {
            observer(request).selection = chosen;
        }
    };
    select({});
    const TapLog whole = observe(context, batch, {{Tap::pattern, 1}, {Tap::pattern, 2}});
    select(selection);
    auto points = pattern_points(1, all_reductions);
    for (TapReduce reduce : all_reductions) {
        points.push_back({Tap::pattern, 2, reduce});
    }
    const TapLog seen = observe(context, batch, points);
    CHECK(seen.size() == points.size() * batch.size());
    for (const TapPoint & point : points) {
        for (int32_t sequence = 0; sequence < static_cast<int32_t>(batch.size()); sequence++) {
            CAPTURE(tap_key(point, sequence));
            const Seen & pattern  = whole.at(tap_key({Tap::pattern, point.layer}, sequence));
            const Seen   expected = reduced(pattern, point.reduce, selection, rows, keys);
            const Seen & actual   = seen.at(tap_key(point, sequence));
            CHECK(actual.shape == expected.shape);
            CHECK(max_abs_diff(actual.data, expected.data) <= 1e-6); // f32 sums
        }
    }
}

const std::vector<std::vector<int32_t>> some_regions = {{0}, {3, 4, 5, 6, 12}, {6, 7, 8, 9, 10, 11, 20, 21, 300}};

} // namespace

TEST_CASE("reductions equal sums over the unreduced pattern") {
    for (const RandomModel & model : {small_model("llada"), small_model("llama"), small_model("qwen3", 4)}) {
        CAPTURE(model.arch);
        const auto context = random_context(model);
        for (const int32_t T : {1, 2, 23, 40}) {
            CAPTURE(T);
            for (const KvUse kv : {KvUse::none, KvUse::store}) {
                for (const bool chosen : {false, true}) {
                    ForwardRequest request              = whole_request(random_tokens(static_cast<size_t>(T), 256));
                    request.kv                          = kv;
                    request.rows                        = {0};
                    observer(request).selection.regions = some_regions;
                    if (chosen) {
                        observer(request).selection.heads = {0, 2, 3};
                        observer(request).selection.rows =
                            T < 23 ? std::vector<int32_t>{T - 1} : std::vector<int32_t>{1, 5, 6, 22};
                    }
                    context->kv_truncate(0, 0);
                    check_reductions(*context, request, T);
                }
            }
        }
    }
}

TEST_CASE("reductions of one kind of selection: heads only, rows only, a single head") {
    const auto     context              = random_context(small_model("llada"));
    ForwardRequest request              = whole_request(random_tokens(23, 256));
    observer(request).selection.regions = some_regions;
    observer(request).selection.heads   = {1};
    check_reductions(*context, request, 23);
    observer(request).selection.heads = {};
    observer(request).selection.rows  = {0, 7, 22};
    check_reductions(*context, request, 23);
}

TEST_CASE("reductions of two sequences stay apart") {
    ContextParams params                = exact_params();
    params.n_sequences                  = 2;
    const auto     context              = random_context(small_model("llada"), params);
    ForwardRequest request              = whole_request(random_tokens(23, 256, 1));
    const auto     other                = random_tokens(23, 256, 2);
    observer(request).selection.regions = some_regions;
    check_reductions(*context, two_sequences(request, other, 1.5f), 23);
    observer(request).selection.heads = {0, 3};
    observer(request).selection.rows  = {2, 3, 4};
    request.kv                        = KvUse::store;
    check_reductions(*context, two_sequences(request, other, 1.5f), 23);

    // the first one shows what a pass of one sequence shows
    const auto     one        = random_context(small_model("llada"));
    ForwardRequest alone      = whole_request(random_tokens(23, 256, 1));
    observer(alone).selection = observer(request).selection;
    const auto points         = pattern_points(2, all_reductions);
    const auto expected       = observe(*one, alone, points);
    const auto both           = observe(*context, two_sequences(request, other, 1.5f), points);
    for (const TapPoint & point : points) {
        CHECK(max_abs_diff(both.at(tap_key(point)).data, expected.at(tap_key(point)).data) <= 1e-6);
    }
}

TEST_CASE("a part of a sequence against stored keys shows the rows of the whole") {
    const auto tokens = random_tokens(50, 256);
    // unchanged tokens: Fast-dLLM's prefix (to the end) and dual (a block) passes are exact
    for (const auto & [first, last] : {std::pair(16, 50), std::pair(16, 24)}) {
        const auto     context = random_context(small_model("llada"));
        const TapLog   whole   = observe(*context, stored_part(tokens, 0, 50), {{Tap::pattern, 1}});
        ForwardRequest part    = stored_part(tokens, first, last);
        const TapLog   seen    = observe(*context, part, {{Tap::pattern, 1}});
        TapSelection   rows;
        rows.rows = range(first, last);
        const Seen expected =
            reduced(whole.at(tap_key({Tap::pattern, 1})), TapReduce::none, rows, range(0, 50), range(0, 50));
        CHECK(seen.at(tap_key({Tap::pattern, 1})).shape == std::array<int64_t, 3>{4, last - first, 50});
        CHECK(max_abs_diff(seen.at(tap_key({Tap::pattern, 1})).data, expected.data) <= 1e-6);
        observer(part).selection.regions = {{0, 1, 17}, {2, 3, 18, 19, 49}};
        check_reductions(*context, part, 50);
        observer(part).selection.rows = {0, 3};
        check_reductions(*context, part, 50);
    }
}

TEST_CASE("prompt and decoding show the rows of a causal pass, padding and what lies behind at zero") {
    for (const RandomModel & model : {small_model("llama"), small_model("qwen3", 4)}) {
        const int32_t B       = std::max(1, model.block_length);
        const auto    context = random_context(model);
        const auto    tokens  = random_tokens(24, 256);
        const Seen whole = observe(*context, whole_request(tokens), {{Tap::pattern, 1}}).at(tap_key({Tap::pattern, 1}));
        for (int32_t first = 0, last = 16; first < 24; first = last, last += B) {
            const Seen seen =
                observe(*context, stored_part(tokens, first, last), {{Tap::pattern, 1}}).at(tap_key({Tap::pattern, 1}));
            REQUIRE(seen.shape == std::array<int64_t, 3>{4, last - first, last});
            double worst = 0.0, hidden = 0.0;
            for (int64_t h = 0; h < 4; h++) {
                for (int64_t q = first; q < last; q++) {
                    for (int64_t k = 0; k < last; k++) {
                        const double p = static_cast<double>(seen.at(h, q - first, k));
                        worst          = std::max(worst, std::abs(p - static_cast<double>(whole.at(h, q, k))));
                        hidden         = k / B > q / B ? std::max(hidden, p) : hidden;
                    }
                }
            }
            CHECK(worst <= 1e-6);
            CHECK(hidden == 0.0);
        }
    }
}

TEST_CASE("scores and pattern of a selection are slices of the whole") {
    const auto     context      = random_context(small_model("llama"));
    ForwardRequest request      = whole_request(random_tokens(12, 256));
    const TapLog   whole        = observe(*context, request, {{Tap::attn_scores, 0}, {Tap::pattern, 0}});
    observer(request).selection = {{1, 3}, {0, 4, 11}, {}};
    const TapLog seen           = observe(*context, request, {{Tap::attn_scores, 0}, {Tap::pattern, 0}});
    for (Tap tap : {Tap::attn_scores, Tap::pattern}) {
        const Seen & slice = seen.at(tap_key({tap, 0}));
        REQUIRE(slice.shape == std::array<int64_t, 3>{2, 3, 12});
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t q = 0; q < 3; q++) {
                for (int64_t k = 0; k < 12; k++) {
                    CHECK(slice.at(h, q, k) == whole.at(tap_key({tap, 0}))
                                                   .at(observer(request).selection.heads[static_cast<size_t>(h)],
                                                       observer(request).selection.rows[static_cast<size_t>(q)], k));
                }
            }
        }
    }
}

TEST_CASE("tapped passes reuse their graph, also for other rows and regions of the same number") {
    const auto     context              = random_context(small_model("llada"));
    ForwardRequest request              = whole_request(random_tokens(23, 256));
    observer(request).selection.regions = some_regions;
    observer(request).selection.rows    = {1, 2, 3};
    check_reductions(*context, request, 23);
    const auto points = pattern_points(1, all_reductions);
    observe(*context, request, points);
    const int64_t before                = context->stats().n_graph_build;
    request.tokens                      = random_tokens(23, 256, 7);
    observer(request).selection.rows    = {4, 9, 21};
    observer(request).selection.regions = {{1, 2}, {3}, {9, 10, 21}};
    const TapLog seen                   = observe(*context, request, points);
    CHECK(context->stats().n_graph_build == before);
    const TapSelection selection = observer(request).selection;
    observer(request).selection  = {};
    const TapLog whole           = observe(*context, request, {{Tap::pattern, 1}});
    for (const TapPoint & point : points) {
        const Seen expected =
            reduced(whole.at(tap_key({Tap::pattern, 1})), point.reduce, selection, range(0, 23), range(0, 23));
        CHECK(max_abs_diff(seen.at(tap_key(point)).data, expected.data) <= 1e-6);
    }
}

TEST_CASE("taps on every layer take the memory of taps on one") {
    RandomModel model = small_model("llada");
    model.n_layer     = 12;
    for (const bool reduce : {false, true}) {
        const auto compute_bytes = [&](int32_t n_layers) {
            const auto            context = random_context(model);
            ForwardRequest        request = whole_request(random_tokens(200, 256));
            std::vector<TapPoint> points;
            observer(request).selection.regions = some_regions;
            for (int32_t il = 0; il < n_layers; il++) {
                for (Tap tap : {Tap::pattern, Tap::attn_scores, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post}) {
                    points.push_back({tap, il});
                }
                if (reduce) {
                    const auto more = pattern_points(il, all_reductions);
                    points.insert(points.end(), more.begin(), more.end());
                }
            }
            observe(*context, request, points);
            return static_cast<int64_t>(context->stats().compute_bytes);
        };
        constexpr int64_t pattern_bytes = 4 * 200 * 200 * 4; // [H, T, K] in f32
        CHECK(compute_bytes(12) - compute_bytes(1) <= pattern_bytes / 4);
    }
}

TEST_CASE("observing changes nothing: the same logits to the bit, with flash attention and without") {
    for (const FlashAttention flash : {FlashAttention::off, FlashAttention::automatic}) {
        for (const RandomModel & model : {small_model("llada"), small_model("llama"), small_model("qwen3", 4)}) {
            for (const KvUse kv : {KvUse::none, KvUse::store}) {
                for (const bool all_rows : {true, false}) {
                    ContextParams params        = exact_params();
                    params.flash                = flash;
                    const auto     context      = random_context(model, params);
                    ForwardRequest request      = whole_request(random_tokens(23, 256));
                    request.kv                  = kv;
                    request.rows                = all_rows ? request.rows : std::vector<int32_t>{3, 22};
                    const auto    plain         = context->forward(request).logits;
                    const int64_t n_rows        = context->stats().n_query_rows_last;
                    observer(request).selection = {{0, 1}, {3, 4}, some_regions};
                    observer(request).sink      = [](const TapEvent &) {};
                    for (int32_t il = 0; il < 3; il++) {
                        for (TapReduce reduce : all_reductions) {
                            observer(request).taps.push_back({Tap::pattern, il, reduce});
                        }
                        for (Tap tap : {Tap::attn_scores, Tap::rot_q, Tap::rot_k, Tap::v}) {
                            observer(request).taps.push_back({tap, il});
                        }
                    }
                    CHECK(context->forward(request).logits == plain);
                    CHECK(context->stats().n_query_rows_last == 2 * n_rows);
                }
            }
        }
    }
}

TEST_CASE("a pass without any output shows its last layer, too") {
    for (const KvUse kv : {KvUse::none, KvUse::store}) {
        const auto     context = random_context(small_model("llama"));
        ForwardRequest request = whole_request(random_tokens(23, 256));
        request.kv             = kv;
        const TapLog expected  = observe(*context, request, {{Tap::pattern, 2}, {Tap::resid_post, 2}});
        request.rows.clear();
        const TapLog seen = observe(*context, request, {{Tap::pattern, 2}});
        const TapLog both = observe(*context, request, {{Tap::pattern, 2}, {Tap::resid_post, 2}});
        CHECK(seen.at(tap_key({Tap::pattern, 2})).data == expected.at(tap_key({Tap::pattern, 2})).data);
        CHECK(both.at(tap_key({Tap::resid_post, 2})).data == expected.at(tap_key({Tap::resid_post, 2})).data);
    }
}

TEST_CASE("a pass that its sink ends forgets what it half stored") {
    const auto context = random_context(small_model("llama"));
    const auto tokens  = random_tokens(20, 256);
    const auto whole   = context->forward(whole_request(tokens)).logits;
    context->forward(stored_part(tokens, 0, 10));
    ForwardRequest rest = stored_part(tokens, 10, 20);
    observer(rest).taps = {{Tap::pattern, 1}};
    observer(rest).sink = [](const TapEvent &) { fail_runtime("the disk is full"); };
    CHECK_THROWS_WITH_AS(context->forward(rest), "the disk is full", Error);
    const auto again = context->forward(stored_part(tokens, 10, 20)).logits;
    CHECK(nmse(again, {whole.begin() + 10 * context->info().n_vocab, whole.end()}) <= 1e-10);
}

TEST_CASE("wrong taps and selections are named") {
    const auto context = random_context(small_model("llada"));
    const auto ask     = [&](const std::string & message, const TapPoint & point, const TapSelection & selection) {
        ForwardRequest request      = whole_request(random_tokens(5, 256));
        observer(request).taps      = {point};
        observer(request).selection = selection;
        observer(request).sink      = [](const TapEvent &) {};
        CHECK_THROWS_WITH_AS(context->forward(request), message.c_str(), Error);
    };
    ask("layer 3 does not exist, the model has layers 0 to 2", {Tap::pattern, 3}, {});
    ask("tapped head 4 follows -1, expected ascending ones of 0 to 3", {Tap::pattern, 0}, {{4}, {}, {}});
    ask("tapped row 2 follows 2, expected ascending ones of 0 to 4", {Tap::pattern, 0}, {{}, {2, 2}, {}});
    ask("blocks.0.attn.hook_pattern should be reduced to regions, but no regions are given",
        {Tap::pattern, 0, TapReduce::regions}, {});
    ForwardRequest request = whole_request(random_tokens(5, 256));
    observer(request).taps = {{Tap::pattern, 0}};
    CHECK_THROWS_WITH_AS(context->forward(request), "the request has taps but no sink to receive them", Error);
}
