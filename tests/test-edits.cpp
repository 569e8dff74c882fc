// Edits of the attention before its softmax, on random models.

#include "buoy/context.h"
#include "buoy/error.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

const std::vector<TapPoint> all_patterns = {{Tap::pattern, 0}, {Tap::pattern, 1}, {Tap::pattern, 2}};

std::vector<AttentionEdit> in_all_layers(AttentionEdit edit) {
    std::vector<AttentionEdit> edits;
    for (edit.layer = 0; edit.layer < 3; edit.layer++) {
        edits.push_back(edit);
    }
    return edits;
}

double worst_row_sum(const Seen & pattern) {
    double worst = 0.0;
    for (int64_t h = 0; h < pattern.shape[0]; h++) {
        for (int64_t q = 0; q < pattern.shape[1]; q++) {
            double sum = 0.0;
            for (int64_t k = 0; k < pattern.shape[2]; k++) {
                sum += static_cast<double>(pattern.at(h, q, k));
            }
            worst = std::max(worst, std::abs(sum - 1.0));
        }
    }
    return worst;
}

} // namespace

TEST_CASE("a dropped column is exactly zero and rows sum to one, whatever the attention and the cache") {
    ContextParams fast = exact_params();
    fast.flash         = FlashAttention::automatic;
    for (const RandomModel & model : {small_model("llada"), small_model("llama"), small_model("qwen3", 4)}) {
        CAPTURE(model.arch);
        for (const ContextParams & params : {exact_params(), fast}) {
            const auto           context = random_context(model, params);
            const auto           tokens  = random_tokens(22, 256);
            const int32_t        B       = model.block_length;
            std::vector<int32_t> queries; // a causal model's first token sees only itself
            if (model.arch != "llada" && B == 0) {
                queries = range(1, 22);
            }
            for (const KvUse kv : {KvUse::none, KvUse::store}) {
                ForwardRequest request = whole_request(tokens);
                request.kv             = kv;
                const auto plain       = context->forward(request).logits;
                request.edits          = in_all_layers({0, {}, queries, {0}, -inf});
                const TapLog seen      = observe(*context, request, all_patterns);
                CHECK(nmse(context->forward(request).logits, plain) > 1e-6);
                for (const TapPoint & point : all_patterns) {
                    const Seen & pattern = seen.at(tap_key(point));
                    CHECK(worst_row_sum(pattern) <= 1e-5);
                    for (int64_t h = 0; h < 4; h++) {
                        for (int64_t q = queries.empty() ? 0 : 1; q < 22; q++) {
                            CHECK(pattern.at(h, q, 0) == 0.0f);
                            CHECK((B == 0 || q / B >= 21 / B || pattern.at(h, q, 21) == 0.0f));
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("biases give the softmax of the unedited scores plus the sum of the biases") {
    for (const RandomModel & model : {small_model("llada"), small_model("qwen3", 4)}) {
        const auto     context = random_context(model);
        const int64_t  T       = 22;
        ForwardRequest request = whole_request(random_tokens(T, 256));
        const Seen     scores  = observe(*context, request, {{Tap::attn_scores, 1}}).at(tap_key({Tap::attn_scores, 1}));

        request.edits      = {{1, {}, {}, {2, 3, 2}, 4.0f},
                              {1, {1, 3}, {}, {3, 9}, -1.5f},
                              {1, {3}, {5, 6}, {9}, -inf},
                              {1, {3}, {5}, {9}, 2.0f}};
        const TapLog seen  = observe(*context, request, {{Tap::attn_scores, 1}, {Tap::pattern, 1}});
        double       worst = 0.0, worst_score = 0.0;
        for (int64_t h = 0; h < 4; h++) {
            for (int64_t q = 0; q < T; q++) {
                std::vector<double> edited;
                double              z = 0.0;
                for (int64_t k = 0; k < T; k++) {
                    double score = static_cast<double>(scores.at(h, q, k));
                    score += k == 2 || k == 3 ? 4.0 : 0.0;
                    score -= (h == 1 || h == 3) && (k == 3 || k == 9) ? 1.5 : 0.0;
                    score -= h == 3 && (q == 5 || q == 6) && k == 9 ? static_cast<double>(inf) : 0.0;
                    edited.push_back(score);
                    z += std::exp(score);
                }
                for (int64_t k = 0; k < T; k++) {
                    const double expected = edited[static_cast<size_t>(k)];
                    const double actual   = static_cast<double>(seen.at(tap_key({Tap::attn_scores, 1})).at(h, q, k));
                    const double p        = static_cast<double>(seen.at(tap_key({Tap::pattern, 1})).at(h, q, k));
                    worst                 = std::max(worst, std::abs(p - std::exp(expected) / z));
                    CHECK(std::isinf(expected) == std::isinf(actual));
                    worst_score =
                        std::isinf(expected) ? worst_score : std::max(worst_score, std::abs(actual - expected));
                }
            }
        }
        CHECK(worst <= 1e-6);
        CHECK(worst_score <= 1e-5);
    }
}

TEST_CASE("other heads, queries and earlier layers stay as they are, to the bit") {
    const auto     context = random_context(small_model("llada"));
    ForwardRequest request = whole_request(random_tokens(22, 256));
    const TapLog   plain   = observe(*context, request, all_patterns);
    request.edits          = {{1, {2}, {3, 4}, {0, 1}, -inf}};
    const TapLog edited    = observe(*context, request, all_patterns);
    CHECK(edited.at(tap_key({Tap::pattern, 0})).data == plain.at(tap_key({Tap::pattern, 0})).data);
    CHECK(edited.at(tap_key({Tap::pattern, 2})).data != plain.at(tap_key({Tap::pattern, 2})).data);
    const Seen &before = plain.at(tap_key({Tap::pattern, 1})), &after = edited.at(tap_key({Tap::pattern, 1}));
    for (int64_t h = 0; h < 4; h++) {
        for (int64_t q = 0; q < 22; q++) {
            const bool touched = h == 2 && (q == 3 || q == 4);
            bool       same    = true;
            for (int64_t k = 0; k < 22; k++) {
                same = same && before.at(h, q, k) == after.at(h, q, k);
            }
            CHECK(same != touched);
        }
    }
}

TEST_CASE("an edit of nothing costs nothing and changes nothing") {
    ContextParams params   = exact_params();
    params.flash           = FlashAttention::automatic;
    const auto     context = random_context(small_model("llada"), params);
    ForwardRequest request = whole_request(random_tokens(22, 256));
    const auto     plain   = context->forward(request).logits;
    const int64_t  built   = context->stats().n_graph_build;
    request.edits          = {
                 {0, {}, {}, {3}, 0.0f}, {1, {}, {}, {22, 500, -1}, -inf}, {2, {}, {}, {}, -inf}, {1, {}, {40}, {0}, -inf}};
    CHECK(context->forward(request).logits == plain);
    CHECK(context->stats().n_graph_build == built);

    // plain attention with nothing to add is the same to the bit, too
    const auto exact         = random_context(small_model("llada"));
    request.edits            = {};
    const auto logits        = exact->forward(request).logits;
    observer(request).probed = {0, 1, 2};
    observer(request).probe  = [](int32_t, const std::vector<int32_t> &, const float *) {
        return std::vector<AttentionEdit>{};
    };
    CHECK(exact->forward(request).logits == logits);
}

TEST_CASE("a probe sees the unedited attention received, and its edits equal given ones") {
    ContextParams two = exact_params();
    two.n_sequences   = 2;
    for (const RandomModel & model : {small_model("llada"), small_model("qwen3", 4)}) {
        for (const bool guided : {false, true}) {
            for (const bool cached : {false, true}) {
                const auto     context = random_context(model, guided ? two : exact_params());
                const auto     tokens  = random_tokens(24, 256);
                ForwardRequest request = cached ? stored_part(tokens, 8, 24) : whole_request(tokens);
                ForwardRequest first   = stored_part(tokens, 0, 8);
                const auto pass = [&](const ForwardRequest & one) { // guided by another sequence, where there are two
                    return guided ? two_sequences(one, random_tokens(one.tokens.size(), 256, 5), 0.5f) : Batch(one);
                };
                const auto start = [&] {
                    for (int32_t sequence = 0; sequence < (guided ? 2 : 1); sequence++) {
                        context->kv_truncate(sequence, 0);
                    }
                    if (cached) {
                        context->forward(pass(first));
                    }
                };
                const AttentionEdit drop{1, {0, 2}, {}, {1, 9}, -inf}, push{1, {}, {}, {5}, 2.0f};
                request.rows = {0};
                start();
                const Seen received = observe(*context, pass(request), {{Tap::pattern, 1, TapReduce::received}})
                                          .at(tap_key({Tap::pattern, 1, TapReduce::received}));
                request.edits = {push, drop};
                start();
                const auto given = context->forward(pass(request))[0].logits;
                const Seen shown = observe(*context, pass(request), {{Tap::pattern, 1}}).at(tap_key({Tap::pattern, 1}));

                int n_calls              = 0;
                request.edits            = {push};
                observer(request).probed = {1};
                observer(request).probe  = [&](int32_t layer, const std::vector<int32_t> & positions,
                                              const float * data) {
                    CHECK(layer == 1);
                    CHECK(positions == range(0, 24));
                    CHECK(max_abs_diff({data, data + 4 * 24}, received.data) <= 1e-6);
                    n_calls++;
                    return std::vector<AttentionEdit>{drop};
                };
                start();
                CHECK(context->forward(pass(request))[0].logits == given);
                CHECK(n_calls == 1);
                const TapLog seen = observe(*context, pass(request), {{Tap::attn_scores, 1}, {Tap::pattern, 1}});
                CHECK(seen.at(tap_key({Tap::pattern, 1})).data == shown.data);
                CHECK(seen.at(tap_key({Tap::attn_scores, 1})).at(2, 0, 9) == -inf);
                CHECK(std::isfinite(seen.at(tap_key({Tap::attn_scores, 1})).at(1, 0, 0)));
                if (guided) {
                    CHECK(seen.at(tap_key({Tap::pattern, 1}, 1)).at(0, 3, 1) == 0.0f);
                }
            }
        }
    }
}

TEST_CASE("edited layers of one pass may differ, and share one mask") {
    RandomModel model        = small_model("llada");
    model.n_layer            = 12;
    const auto compute_bytes = [&](int32_t n_layers) {
        const auto     context = random_context(model);
        ForwardRequest request = whole_request(random_tokens(100, 256));
        for (int32_t il = 0; il < n_layers; il++) {
            request.edits.push_back({il, {il % 4}, {}, {il}, -inf});
            observer(request).taps.push_back({Tap::pattern, il});
        }
        observer(request).sink = [](const TapEvent & event) {
            const float * row = event.data + (event.point.layer % 4) * 100 * 100;
            CHECK(row[event.point.layer] == 0.0f);
            CHECK(row[event.point.layer + 1] > 0.0f);
        };
        context->forward(request);
        CHECK(context->stats().n_graph_build == 1);
        context->forward(request);
        CHECK(context->stats().n_graph_build == 1);
        return static_cast<int64_t>(context->stats().compute_bytes);
    };
    CHECK(compute_bytes(12) - compute_bytes(2) <= 12 * 1024);
}

TEST_CASE("the cached passes of a diffusion model take edits by position") {
    const auto tokens  = random_tokens(50, 256);
    const auto context = random_context(small_model("llada"));
    context->forward(stored_part(tokens, 0, 50));
    ForwardRequest part = stored_part(tokens, 16, 24);
    part.edits          = in_all_layers({0, {}, {17, 18, 40}, {3, 20, 49}, -inf});
    const TapLog seen   = observe(*context, part, all_patterns);
    for (const TapPoint & point : all_patterns) {
        const Seen & pattern = seen.at(tap_key(point));
        CHECK(worst_row_sum(pattern) <= 1e-5);
        for (int64_t q = 0; q < 8; q++) {
            for (int64_t key : {3, 20, 49}) {
                CHECK((pattern.at(1, q, key) == 0.0f) == (q == 1 || q == 2));
            }
        }
    }
}

TEST_CASE("a query without any key left is an error, and the engine goes on") {
    const auto     context = random_context(small_model("llama"));
    ForwardRequest request = whole_request(random_tokens(10, 256));
    const auto     plain   = context->forward(request).logits;
    request.edits          = {{1, {}, {}, {0}, -inf}};
    CHECK_THROWS_WITH_AS(context->forward(request),
                         "layer 1, head 0: the edits leave the query at position 0 no key to attend to; exclude it "
                         "with queries=",
                         Error);
    request.edits = {{2, {3}, {4}, {0, 1, 2, 3, 4}, -inf}};
    request.kv    = KvUse::store;
    CHECK_THROWS_WITH_AS(context->forward(request),
                         "layer 2, head 3: the edits leave the query at position 4 no key to attend to; exclude it "
                         "with queries=",
                         Error);
    request.edits.clear();
    CHECK(nmse(context->forward(request).logits, plain) <= 1e-10);
    request.kv = KvUse::none;
    CHECK(context->forward(request).logits == plain);

    observer(request).probed = {1};
    observer(request).probe  = [](int32_t, const std::vector<int32_t> & keys, const float *) {
        return std::vector<AttentionEdit>{{1, {}, {}, keys, -inf}};
    };
    CHECK_THROWS_AS(context->forward(request), Error);
    observer(request).probed.clear();
    CHECK(context->forward(request).logits == plain);
}

TEST_CASE("wrong edits are named") {
    const auto context = random_context(small_model("llada"));
    const auto rejects = [&](const std::string & message, const AttentionEdit & edit) {
        ForwardRequest request = whole_request(random_tokens(5, 256));
        request.edits          = {edit};
        CHECK_THROWS_WITH_AS(context->forward(request), message.c_str(), Error);
    };
    rejects("layer 3 cannot be edited, the model has layers 0 to 2", {3, {}, {}, {0}, 1.0f});
    rejects("head 4 cannot be edited, the model has heads 0 to 3", {0, {4}, {}, {0}, 1.0f});
    rejects("an edit of layer 0 has the bias inf, expected -10000 to 10000 or -inf", {0, {}, {}, {0}, inf});
    rejects("an edit of layer 0 has the bias 10001, expected -10000 to 10000 or -inf", {0, {}, {}, {0}, 10001.0f});
    rejects("an edit of layer 0 has the bias -3e+38, expected -10000 to 10000 or -inf", {0, {}, {}, {0}, -3e38f});
    rejects("an edit of layer 0 has the bias nan, expected -10000 to 10000 or -inf", {0, {}, {}, {0}, std::nanf("")});
    ForwardRequest request   = whole_request(random_tokens(5, 256));
    observer(request).probed = {1};
    CHECK_THROWS_WITH_AS(context->forward(request), "layer 1 should be probed, but no probe is given", Error);
    observer(request).probe = [](int32_t, const std::vector<int32_t> &, const float *) {
        return std::vector<AttentionEdit>{{2, {}, {}, {0}, -inf}};
    };
    CHECK_THROWS_WITH_AS(context->forward(request), "a probe of layer 1 edits layer 2", Error);
}
