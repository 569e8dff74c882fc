// The engine over libllama: against the authors' PyTorch and our own engine, and on a tiny model of an architecture that is
// not ours. F32 weights and K/V, no flash attention, unless said otherwise.

#include "buoy/context.h"
#include "buoy/edit.h"
#include "buoy/error.h"
#include "buoy/message.h"
#include "engine/request-check.h"
#include "engine/row-summary.h"
#include "support/converted.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/tap-log.h"
#include "support/text.h"
#include "support/tiny-gemma.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

const std::vector<std::string> oracle_names = {"llada", "llada-256-bf16", "dream", "llama", "llama32-rope-scaled-tied",
                                               "qwen2", "qwen3-tied"};

std::unique_ptr<Context> load(const std::string & path, const ContextParams & params = exact_params()) {
    TestModel model;
    model.path = path;
    return load_llama_context(model, params);
}

std::vector<int32_t> some_tokens(int32_t n) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < n; i++) {
        tokens.push_back((i * 37 + i * i) % 256);
    }
    return tokens;
}

// Tokens [first, last) with stored K/V; the logits of every row.
std::vector<float> forward_stored(Context & context, const std::vector<int32_t> & tokens, int32_t first, int32_t last) {
    ForwardRequest request = whole_request({tokens.begin() + first, tokens.begin() + last});
    request.positions.resize(request.tokens.size());
    std::iota(request.positions.begin(), request.positions.end(), first);
    request.kv = KvUse::store;
    return context.forward(request).logits;
}

// Of every layer, by the names of taps.
std::map<std::string, Seen> observe_all(Context & context, const ForwardRequest & request,
                                        const std::vector<Tap> & taps) {
    std::vector<TapPoint> points;
    for (int32_t il = 0; il < context.info().n_layer; il++) {
        for (const Tap tap : taps) {
            points.push_back({tap, il});
        }
    }
    const TapLog                log = observe(context, request, points);
    std::map<std::string, Seen> seen;
    for (const TapPoint & point : points) {
        seen[tap_name(point.tap, point.layer)] = log.at(tap_key(point));
    }
    return seen;
}

const std::vector<Tap> all_taps{Tap::attn_scores, Tap::pattern, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post};

// Infinite where both are; NaN if they disagree about that.
double score_nmse(const std::vector<float> & actual, const std::vector<float> & expected) {
    std::vector<float> a, b;
    for (size_t i = 0; i < expected.size(); i++) {
        if (std::isinf(expected[i]) != std::isinf(actual[i])) {
            return NAN;
        }
        if (!std::isinf(expected[i])) {
            a.push_back(actual[i]);
            b.push_back(expected[i]);
        }
    }
    return nmse(a, b);
}

std::string error_of(const std::function<void()> & action) {
    try {
        action();
    } catch (const Error & error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("llama engine: logits equal the reference, with and without stored K/V") {
    for (const std::string & name : oracle_names) {
        CAPTURE(name);
        const Oracle             oracle(name);
        const std::vector<float> expected = oracle.floats("logits");
        const auto               tokens   = oracle.ids("input_ids");
        const auto               context  = load(converted_oracle(name));
        const auto               V        = static_cast<size_t>(context->info().n_vocab);

        const std::vector<float> plain = context->forward(whole_request(tokens)).logits;
        CHECK(nmse(plain, expected) <= 1e-10);
        CHECK(argmax_rows(plain, V) == argmax_rows(expected, V));

        const bool causal = context->info().traits.attention == AttentionKind::causal;
        CHECK(causal == (oracle.expected["forward"]["attention"] == "causal"));
        CHECK(context->info().traits.shift == (causal || name == "dream"));
        if (!causal) {
            CHECK(context->info().traits.mask_id >= 0);
            CHECK(contains(error_of([&] { forward_stored(*context, tokens, 0, 4); }), "full attention"));
            continue;
        }
        const auto         T = static_cast<int32_t>(tokens.size());
        std::vector<float> pieces;
        for (const auto & [first, last] : {std::pair(0, 5), std::pair(5, 6), std::pair(6, T)}) {
            const std::vector<float> piece = forward_stored(*context, tokens, first, last);
            pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        CHECK(nmse(pieces, expected) <= 1e-10);
    }
}

TEST_CASE("llama engine: taps equal the reference and our engine's") {
    for (const std::string & name : oracle_names) {
        CAPTURE(name);
        const Oracle   oracle(name);
        const auto     context = load(converted_oracle(name));
        ForwardRequest request = whole_request(oracle.ids("input_ids"));
        request.rows           = {1};
        const auto seen        = observe_all(*context, request, all_taps);

        std::vector<float> patterns;
        for (int32_t il = 0; il < context->info().n_layer; il++) {
            const auto & pattern = seen.at(tap_name(Tap::pattern, il)).data;
            patterns.insert(patterns.end(), pattern.begin(), pattern.end());
        }
        CHECK(max_abs_diff(patterns, oracle.floats("attn")) <= 1e-5);
        const auto layer = oracle.expected["forward"]["qk_layer"].get<int32_t>();
        CHECK(nmse(seen.at(tap_name(Tap::rot_q, layer)).data, oracle.floats("q_rope")) <= 1e-9);
        CHECK(nmse(seen.at(tap_name(Tap::rot_k, layer)).data, oracle.floats("k_rope")) <= 1e-9);

        TestModel model;
        model.path      = converted_oracle(name);
        const auto ours = observe_all(*load_context(model, exact_params()), request, all_taps);
        CHECK(ours.size() == seen.size());
        for (const auto & [tap, expected] : ours) {
            CAPTURE(tap);
            CHECK(seen.at(tap).shape == expected.shape);
            CHECK(score_nmse(seen.at(tap).data, expected.data) <= 1e-9);
        }
    }
}

TEST_CASE("llama engine: an architecture that is not ours, in chunks and pieces, by the store and without") {
    TestModel model;
    model.path         = tiny_gemma();
    const auto context = load_context(model, exact_params());
    CHECK(context->info().arch == "gemma");
    CHECK(context->info().name == "tiny");
    CHECK(context->info().n_vocab == 261);
    CHECK(context->info().n_embd == 64);
    CHECK(context->info().n_layer == 2);
    CHECK(context->info().n_head == 4);
    CHECK(context->info().n_head_kv == 2);
    CHECK(context->info().head_dim == 32);
    CHECK(context->info().traits.shift);
    CHECK(context->n_ctx() == 1024);

    constexpr int32_t        T      = 600; // more than one chunk
    const auto               tokens = some_tokens(T);
    const std::vector<float> plain  = context->forward(whole_request(tokens)).logits;
    CHECK(plain.size() == 600 * 261);
    CHECK(nmse(forward_stored(*context, tokens, 0, T), plain) <= 1e-10);

    context->kv_truncate(0, 550);
    const std::vector<float> tail(plain.end() - 50 * 261, plain.end());
    CHECK(nmse(forward_stored(*context, tokens, 550, T), tail) <= 1e-10);
    CHECK(nmse(forward_stored(*context, tokens, 550, T), tail) <= 1e-10); // writes the same positions again
    CHECK(nmse(context->forward(whole_request(tokens)).logits, plain) <= 1e-12);
    CHECK(nmse(forward_stored(*context, tokens, 599, T), {plain.end() - 261, plain.end()}) <= 1e-10);
}

TEST_CASE("llama engine: taps of a stored pass cover all keys") {
    const auto     context = load(tiny_gemma());
    const auto     tokens  = some_tokens(560);
    ForwardRequest whole   = whole_request(tokens);
    const auto     plain   = observe_all(*context, whole, all_taps);

    whole.kv          = KvUse::store;
    const auto stored = observe_all(*context, whole, all_taps);
    for (const auto & [tap, expected] : plain) {
        CAPTURE(tap);
        CHECK(stored.at(tap).shape == expected.shape);
        CHECK(score_nmse(stored.at(tap).data, expected.data) <= 1e-10);
    }

    ForwardRequest last = whole_request({tokens[559]});
    last.positions      = {559};
    last.kv             = KvUse::store;
    const auto row      = observe_all(*context, last, all_taps);
    CHECK(row.at("blocks.0.attn.hook_pattern").shape == std::array<int64_t, 3>{4, 1, 560});
    CHECK(row.at("blocks.1.attn.hook_rot_k").shape == std::array<int64_t, 3>{2, 560, 32});
    CHECK(row.at("blocks.1.hook_resid_post").shape == std::array<int64_t, 3>{1, 1, 64});
    CHECK(nmse(row.at("blocks.1.attn.hook_rot_k").data, plain.at("blocks.1.attn.hook_rot_k").data) <= 1e-10);
    CHECK(nmse(row.at("blocks.1.attn.hook_v").data, plain.at("blocks.1.attn.hook_v").data) <= 1e-10);

    for (int64_t head = 0; head < 4; head++) { // the softmax of the scores is the pattern, and it is causal
        const float * scores  = plain.at("blocks.1.attn.hook_attn_scores").data.data() + (head * 560 + 100) * 560;
        const float * pattern = plain.at("blocks.1.attn.hook_pattern").data.data() + (head * 560 + 100) * 560;
        double        sum     = 0;
        for (int64_t key = 0; key <= 100; key++) {
            sum += std::exp(static_cast<double>(scores[key]));
        }
        CHECK(std::exp(static_cast<double>(scores[7])) / sum ==
              doctest::Approx(static_cast<double>(pattern[7])).epsilon(1e-5));
        CHECK(std::isinf(scores[101]));
        CHECK(pattern[101] == 0.0f);
    }
}

TEST_CASE("llama engine: reductions and selections equal sums over the unreduced pattern, and our engine's") {
    const auto check = [](Context & context, ForwardRequest request, int32_t first, int32_t n_keys, Context * ours) {
        const auto            T = static_cast<int32_t>(request.tokens.size());
        std::vector<TapPoint> points;
        for (TapReduce reduce : {TapReduce::none, TapReduce::heads, TapReduce::received, TapReduce::regions}) {
            points.push_back({Tap::pattern, 0, reduce});
            points.push_back({Tap::pattern, 1, reduce});
        }
        std::vector<int32_t> rows(static_cast<size_t>(T)), keys(static_cast<size_t>(n_keys));
        std::iota(rows.begin(), rows.end(), first);
        std::iota(keys.begin(), keys.end(), first + T - n_keys);
        const TapSelection selection = observer(request).selection;
        observer(request).selection  = {};
        const TapLog whole           = observe(context, request, {{Tap::pattern, 0}, {Tap::pattern, 1}});
        observer(request).selection  = selection;
        const TapLog seen            = observe(context, request, points);
        const TapLog of_ours         = ours ? observe(*ours, request, points) : TapLog{};
        for (const TapPoint & point : points) {
            CAPTURE(tap_key(point));
            const Seen & actual = seen.at(tap_key(point));
            const Seen   expected =
                reduced(whole.at(tap_key({Tap::pattern, point.layer})), point.reduce, selection, rows, keys);
            CHECK(actual.shape == expected.shape);
            CHECK(max_abs_diff(actual.data, expected.data) <= 1e-6);
            if (ours) {
                CHECK(of_ours.at(tap_key(point)).shape == actual.shape);
                CHECK(max_abs_diff(of_ours.at(tap_key(point)).data, actual.data) <= 1e-4);
            }
        }
    };
    const TapSelection all{{}, {}, {{0, 1, 2}, {2, 3, 17, 18, 19, 900}, {9, 9}}};
    const TapSelection some{{0, 3}, {1, 2, 9}, all.regions};
    for (const TapSelection & selection : {all, some}) {
        const auto     gemma        = load(tiny_gemma());
        ForwardRequest request      = whole_request(some_tokens(20));
        observer(request).selection = selection;
        check(*gemma, request, 0, 20, nullptr);
        ForwardRequest chunks      = whole_request(some_tokens(560)); // more than libllama computes at once
        chunks.kv                  = KvUse::store;
        observer(chunks).selection = selection;
        check(*gemma, chunks, 0, 560, nullptr);
        gemma->kv_truncate(0, 0);
        forward_stored(*gemma, some_tokens(20), 0, 8);
        ForwardRequest rest = whole_request({request.tokens.begin() + 8, request.tokens.end()});
        rest.positions.resize(12);
        std::iota(rest.positions.begin(), rest.positions.end(), 8);
        rest.kv                  = KvUse::store;
        observer(rest).selection = selection;
        check(*gemma, rest, 8, 20, nullptr);
        for (const char * name : {"llada", "qwen3-tied"}) {
            TestModel model;
            model.path      = converted_oracle(name);
            const auto ours = load_context(model, exact_params());
            check(*load(model.path), request, 0, 20, ours.get());
        }
    }
}

TEST_CASE("llama engine: a layer is handed over before the next one is computed") {
    const auto     context = load(tiny_gemma());
    ForwardRequest request = whole_request(some_tokens(20));
    observer(request).taps = {{Tap::pattern, 1}, {Tap::resid_post, 0}, {Tap::pattern, 0}};
    std::vector<TapPoint> order;
    observer(request).sink = [&](const TapEvent & event) { order.push_back(event.point); };
    context->forward(request);
    CHECK(order == std::vector<TapPoint>{{Tap::pattern, 0}, {Tap::resid_post, 0}, {Tap::pattern, 1}});
}

TEST_CASE("llama engine: only the rows asked for, in the order asked for") {
    const auto               context = load(tiny_gemma());
    const auto               tokens  = some_tokens(20);
    const std::vector<float> all     = context->forward(whole_request(tokens)).logits;

    const int64_t  n_rows  = context->stats().n_head_rows;
    ForwardRequest request = whole_request(tokens);
    request.rows           = {7, 3, 7};
    const auto some        = context->forward(request).logits;
    CHECK(context->stats().n_head_rows - n_rows == 2);
    CHECK(some.size() == 3 * 261);
    for (size_t i = 0; i < 3; i++) {
        const auto row = static_cast<std::ptrdiff_t>(request.rows[i]) * 261;
        CHECK(max_abs_diff({some.begin() + static_cast<std::ptrdiff_t>(i) * 261,
                            some.begin() + static_cast<std::ptrdiff_t>(i + 1) * 261},
                           {all.begin() + row, all.begin() + row + 261}) <= 1e-4);
    }

    request.output         = OutputKind::summary;
    const auto & summaries = context->forward(request).summaries;
    CHECK(context->forward(request).logits.empty());
    REQUIRE(summaries.size() == 3);
    CHECK(summaries[1].id == argmax_rows(all, 261)[3]);

    request.output = OutputKind::none;
    CHECK(context->forward(request).logits.empty());
    request.output = OutputKind::logits;
    request.rows.clear();
    CHECK(context->forward(request).logits.empty());
}

TEST_CASE("row summary") {
    const std::vector<float> logits{1.0f, 3.0f, 2.0f, 3.0f};
    const RowSummary         row = summarize_row(logits.data(), logits.size());
    const double             z   = std::exp(1.0) + std::exp(2.0) + 2 * std::exp(3.0);
    CHECK(row.id == 1); // the lowest of a tie
    CHECK(row.second_id == 3);
    CHECK(row.prob == doctest::Approx(std::exp(3.0) / z));
    CHECK(row.margin == doctest::Approx(0.0));
    double entropy = 0;
    for (const float logit : logits) {
        const double p = std::exp(static_cast<double>(logit)) / z;
        entropy -= p * std::log(p);
    }
    CHECK(row.entropy == doctest::Approx(entropy));
    const std::vector<float> sure{-INFINITY, 5.0f, -INFINITY};
    CHECK(summarize_row(sure.data(), 3).prob == 1.0f);
    CHECK(summarize_row(sure.data(), 3).entropy == 0.0f);
    CHECK(summarize_row(sure.data(), 3).margin == 1.0f);
}

TEST_CASE("llama engine: flash attention and K/V types stay close") {
    const auto               tokens = some_tokens(40);
    const std::vector<float> exact  = load(tiny_gemma())->forward(whole_request(tokens)).logits;
    for (const KvType type : {KvType::f16, KvType::q8_0}) {
        ContextParams params = exact_params();
        params.flash         = FlashAttention::automatic;
        params.type_k        = type;
        params.type_v        = type;
        const auto context   = load(tiny_gemma(), params);
        CHECK(nmse(context->forward(whole_request(tokens)).logits, exact) <= 1e-4);
        CHECK(nmse(forward_stored(*context, tokens, 0, 40), exact) <= 1e-3);
        CHECK(observe_all(*context, whole_request(tokens), {Tap::resid_post}).size() == 2);
        params.flash = FlashAttention::on;
        CHECK(
            contains(error_of([&] { observe_all(*load(tiny_gemma(), params), whole_request(tokens), {Tap::pattern}); }),
                     "flash attention; use `flash` off"));
    }
}

TEST_CASE("llama engine: automatic flash attention is left where a tap needs it, whatever was stored before") {
    const auto    tokens = some_tokens(40);
    ContextParams params = exact_params();
    params.flash         = FlashAttention::automatic;
    const auto exact = load(tiny_gemma()), context = load(tiny_gemma(), params);
    const auto check_same = [](const TapLog & a, const TapLog & b) {
        REQUIRE(a.size() == b.size());
        for (const auto & [name, seen] : a) {
            CHECK(seen.data == b.at(name).data);
        }
    };
    forward_stored(*exact, tokens, 0, 30);
    forward_stored(*context, tokens, 0, 30);
    ForwardRequest rest = whole_request({tokens.begin() + 30, tokens.end()});
    rest.kv             = KvUse::store;
    rest.positions.resize(10);
    std::iota(rest.positions.begin(), rest.positions.end(), 30);
    check_same(observe_all(*context, rest, {Tap::pattern}), observe_all(*exact, rest, {Tap::pattern}));
    CHECK(forward_stored(*context, tokens, 35, 40) == forward_stored(*exact, tokens, 35, 40));
    check_same(observe_all(*context, whole_request(tokens), {Tap::pattern}),
               observe_all(*exact, whole_request(tokens), {Tap::pattern}));
}

TEST_CASE("llama engine: that it can't edit is known before") {
    const auto context = load(tiny_gemma());
    CHECK(contains(error_of([&] { check_can_edit(context->model()); }), "'gemma' runs through libllama"));
    CHECK(context->stats().n_forward == 0);
}

TEST_CASE("llama engine: wrong requests are named") {
    const auto context = load(tiny_gemma());
    const auto ask     = [&](const std::function<void(ForwardRequest &)> & spoil) {
        ForwardRequest request = whole_request(some_tokens(4));
        spoil(request);
        return error_of([&] { context->forward(request); });
    };
    CHECK(contains(ask([](ForwardRequest & r) { r.tokens.clear(); }), "0 tokens"));
    CHECK(contains(ask([](ForwardRequest & r) { r.tokens[1] = 261; }), "token id 261"));
    CHECK(contains(ask([](ForwardRequest & r) { r.tokens[1] = -1; }), "token id -1"));
    CHECK(contains(ask([](ForwardRequest & r) { r.rows = {4}; }), "row 4"));
    CHECK(contains(ask([](ForwardRequest & r) { r.positions = {0, 1}; }), "2 positions"));
    CHECK(contains(ask([](ForwardRequest & r) { r.positions = {0, 1, 3, 4}; }), "position 3"));
    CHECK(contains(ask([](ForwardRequest & r) { r.positions = {-1, 0, 1, 2}; }), "position -1"));
    CHECK(contains(ask([](ForwardRequest & r) { r.positions = {7, 8, 9, 10}, r.kv = KvUse::store; }), "gap"));
    CHECK(contains(ask([](ForwardRequest & r) {
                       observer(r).taps = {{Tap::pattern, 2}}, observer(r).sink = [](const TapEvent &) {};
                   }),
                   "layer 2"));
    CHECK(contains(ask([](ForwardRequest & r) {
                       r.edits = {{0, {}, {}, {0}, -1.0f}};
                   }),
                   "attention edits need an architecture that buoy runs itself (diffusion-gemma, llada, "));
    CHECK(contains(ask([](ForwardRequest & r) { observer(r).probed = {0}; }), "'gemma' runs through libllama"));
    CHECK(contains(ask([](ForwardRequest & r) { observer(r).taps = {{Tap::pattern, 1}}; }), "sink"));
    CHECK(contains(error_of([&] { forward_stored(*context, some_tokens(1025), 0, 1025); }), "context of 1024"));
    CHECK(contains(error_of([&] { context->kv_truncate(0, -1); }), "position -1"));

    ForwardRequest broken_sink = whole_request(some_tokens(4));
    observer(broken_sink).taps = {{Tap::pattern, 0}};
    observer(broken_sink).sink = [](const TapEvent &) { fail("the sink is full"); };
    CHECK(error_of([&] { context->forward(broken_sink); }) == "the sink is full");
    CHECK(context->forward(whole_request(some_tokens(4))).logits.size() == 4 * 261);
}

TEST_CASE("llama engine: wrong parameters and files are named") {
    const auto with = [](const std::function<void(ContextParams &)> & spoil) {
        ContextParams params = exact_params();
        spoil(params);
        return error_of([&] { load(tiny_gemma(), params); });
    };
    CHECK(contains(with([](ContextParams & p) { p.n_sequences = 2; }), "sequences"));
    CHECK(contains(with([](ContextParams & p) { p.n_ctx = -2; }), "context length"));
    CHECK(contains(with([](ContextParams & p) { p.n_threads = 10000; }), "threads"));

    TinyGemma unknown;
    unknown.arch = "no-such-arch";
    CHECK(contains(error_of([&] { load(tiny_gemma(unknown)); }),
                   "'general.architecture': expected diffusion-gemma, llada, "));
    TinyGemma deep;
    deep.n_layer_key = 1000000000;
    CHECK(contains(error_of([&] { load(tiny_gemma(deep)); }), "gemma.block_count"));
    deep.n_layer_key = 3; // one more than there are tensors for
    CHECK(contains(error_of([&] { load(tiny_gemma(deep)); }), "blk.2"));
    TinyGemma headless;
    headless.n_head_key = 0;
    CHECK(error_of([&] { load(tiny_gemma(headless)); }) != "no error");
    CHECK(contains(error_of([] { load("/no/such/file.gguf"); }), "/no/such/file.gguf"));

    TestModel cancelled;
    cancelled.path     = tiny_gemma();
    cancelled.progress = [](float) { return false; };
    CHECK(contains(error_of([&] { load_llama_context(cancelled, exact_params()); }), "cancelled"));
}
