// What the engine promises about any model, on random ones: rows, K/V store, streams, graph reuse, taps, bad requests.

#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/message.h"
#include "kernel/matmul.h"
#include "support/oracle.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

using namespace buoy;
using namespace buoy::test;

namespace {

// f32 matmuls of another shape sum in another order
constexpr double tolerance_f32 = 1e-10;

RandomModel model_of(const std::string & arch, int32_t block_length = 0) {
    RandomModel model = small_model(arch, block_length);
    model.head_dim    = arch == "qwen3" ? 32 : 16;
    return model;
}

std::vector<float> rows_of(const std::vector<float> & logits, size_t n_vocab, const std::vector<int32_t> & rows) {
    std::vector<float> picked;
    for (int32_t row : rows) {
        const auto at = logits.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * n_vocab);
        picked.insert(picked.end(), at, at + static_cast<ptrdiff_t>(n_vocab));
    }
    return picked;
}

// Runs tokens through the store in batches of n, returns all logits.
std::vector<float> run_stored(Context & context, const std::vector<int32_t> & tokens, size_t n) {
    std::vector<float> all;
    for (size_t first = 0; first < tokens.size(); first += n) {
        const size_t   last    = std::min(first + n, tokens.size());
        ForwardRequest request = whole_request(
            {tokens.begin() + static_cast<ptrdiff_t>(first), tokens.begin() + static_cast<ptrdiff_t>(last)});
        for (size_t i = first; i < last; i++) {
            request.positions.push_back(static_cast<int32_t>(i));
        }
        request.kv        = KvUse::store;
        const auto & part = context.forward(request).logits;
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

} // namespace

TEST_CASE("rows nobody asked for are not computed, the others are the same") {
    for (const char * arch : {"llada", "dream", "llama", "qwen2", "qwen3"}) {
        const std::string name = arch;
        CAPTURE(name);
        const auto   context = random_context(model_of(arch));
        const size_t V       = static_cast<size_t>(context->info().n_vocab);
        const auto   tokens  = random_tokens(40, 256);
        const auto   all     = context->forward(whole_request(tokens)).logits;
        const auto   before  = context->stats();
        CHECK(before.n_head_rows == 40);
        CHECK(before.n_query_rows_last == 40);

        ForwardRequest few = whole_request(tokens);
        few.rows           = {3, 17, 39};
        CHECK(nmse(context->forward(few).logits, rows_of(all, V, few.rows)) <= tolerance_f32);
        CHECK(context->stats().n_head_rows - before.n_head_rows == 3);
        CHECK(context->stats().n_query_rows_last - before.n_query_rows_last == 3);

        // in any order, and more than once
        few.rows.clear();
        for (int32_t row = 39; row >= 0; row--) {
            few.rows.push_back(row);
        }
        CHECK(nmse(context->forward(few).logits, rows_of(all, V, few.rows)) <= tolerance_f32);
        few.rows.push_back(7);
        CHECK(nmse(context->forward(few).logits, rows_of(all, V, few.rows)) <= tolerance_f32);
        const auto again = context->stats();

        few.rows = {};
        CHECK(context->forward(few).logits.empty());
        CHECK(context->stats().n_head_rows == again.n_head_rows);
        CHECK(context->stats().n_query_rows_last == again.n_query_rows_last);
    }
}

TEST_CASE("stored keys and values are exact for causal and block-causal attention") {
    const auto tokens = random_tokens(77, 256);
    for (const RandomModel & model :
         {model_of("llama"), model_of("qwen2"), model_of("qwen3"), model_of("qwen3", 4), model_of("llama", 8)}) {
        const std::string name = model.arch;
        CAPTURE(name);
        CAPTURE(model.block_length);
        const auto context = random_context(model);
        const auto whole   = context->forward(whole_request(tokens)).logits;
        // a batch must hold whole blocks, or later tokens of a block would be missing when its first ones are computed
        const size_t unit = static_cast<size_t>(std::max(1, model.block_length));
        for (size_t n : {unit, 3 * unit, size_t{40}, size_t{80}}) {
            CAPTURE(n);
            context->kv_truncate(0, 0);
            CHECK(nmse(run_stored(*context, tokens, n), whole) <= tolerance_f32);
        }
    }
}

TEST_CASE("stored keys and values in F16 and Q8_0 stay close") {
    const auto tokens = random_tokens(64, 256);
    for (bool flash : {false, true}) {
        for (KvType type : {KvType::f16, KvType::q8_0}) {
            RandomModel model    = model_of("llama");
            model.head_dim       = 32;
            ContextParams params = exact_params();
            params.type_k = params.type_v = type;
            params.flash                  = flash ? FlashAttention::on : FlashAttention::off;
            const auto whole              = random_context(model)->forward(whole_request(tokens)).logits;
            CHECK(nmse(run_stored(*random_context(model, params), tokens, 16), whole) <=
                  (type == KvType::f16 ? 1e-5 : 1e-2));
        }
    }
}

TEST_CASE("truncating the store forgets what came after") {
    const auto context = random_context(model_of("llama"));
    const auto first   = random_tokens(30, 256, 1);
    auto       second  = random_tokens(30, 256, 2);
    std::copy(first.begin(), first.begin() + 10, second.begin());
    run_stored(*context, first, 30);
    context->kv_truncate(0, 10);
    ForwardRequest rest = whole_request({second.begin() + 10, second.end()});
    rest.kv             = KvUse::store;
    for (int32_t i = 10; i < 30; i++) {
        rest.positions.push_back(i);
    }
    const auto resumed = context->forward(rest).logits;
    const auto whole   = context->forward(whole_request(second)).logits;
    const auto V       = context->info().n_vocab;
    CHECK(nmse(resumed, {whole.begin() + 10 * V, whole.end()}) <= tolerance_f32);
}

TEST_CASE("full attention: any positions can be recomputed against the stored others") {
    const auto     context = random_context(model_of("llada"));
    const auto     tokens  = random_tokens(50, 256);
    const size_t   V       = static_cast<size_t>(context->info().n_vocab);
    ForwardRequest all     = whole_request(tokens);
    const auto     whole   = context->forward(all).logits;
    all.kv                 = KvUse::store;
    CHECK(nmse(context->forward(all).logits, whole) <= tolerance_f32);

    const std::vector<int32_t> chosen = {0, 7, 8, 9, 31, 49};
    ForwardRequest             some;
    for (int32_t position : chosen) {
        some.tokens.push_back(tokens[static_cast<size_t>(position)]);
    }
    some           = whole_request(some.tokens);
    some.positions = chosen;
    some.kv        = KvUse::store;
    // unchanged tokens give unchanged keys, so the others need not be computed again
    CHECK(nmse(context->forward(some).logits, rows_of(whole, V, chosen)) <= tolerance_f32);

    // a changed one changes its own row and what later calls see of it
    some.tokens[2] = (some.tokens[2] + 1) % 256;
    CHECK(nmse(context->forward(some).logits, rows_of(whole, V, chosen)) > 1e-4);
}

TEST_CASE("sequences of one pass are independent") {
    ContextParams two = exact_params();
    two.n_sequences   = 2;
    for (const char * arch : {"llada", "qwen3"}) {
        const RandomModel model = model_of(arch);
        const auto        one   = random_context(model);
        const auto        both  = random_context(model, two);
        const auto        a     = random_tokens(24, 256, 1);
        const auto        b     = random_tokens(24, 256, 2);
        for (KvUse kv : {KvUse::none, KvUse::store}) {
            ForwardRequest request = whole_request(a);
            request.rows           = {5, 23};
            request.kv             = kv;
            auto expected =
                rows_of(one->forward(whole_request(a)).logits, static_cast<size_t>(one->info().n_vocab), request.rows);
            const auto of_b =
                rows_of(one->forward(whole_request(b)).logits, static_cast<size_t>(one->info().n_vocab), request.rows);
            expected.insert(expected.end(), of_b.begin(), of_b.end());
            const auto &       results = both->forward(two_sequences(request, b));
            std::vector<float> actual  = results[0].logits;
            actual.insert(actual.end(), results[1].logits.begin(), results[1].logits.end());
            CHECK(nmse(actual, expected) <= tolerance_f32);
        }
    }
}

TEST_CASE("a graph is built once per shape and nothing is allocated after that") {
    const auto     context = random_context(model_of("llada"));
    ForwardRequest request = whole_request(random_tokens(32, 256));
    context->forward(request);
    const size_t bytes = context->stats().compute_bytes;
    for (uint32_t i = 0; i < 5; i++) {
        request.tokens = random_tokens(32, 256, i);
        context->forward(request);
    }
    CHECK(context->stats().n_graph_build == 1);
    CHECK(context->stats().n_forward == 6);
    CHECK(context->stats().compute_bytes == bytes);
    request.rows = {1};
    context->forward(request);
    CHECK(context->stats().n_graph_build == 2);

    // a growing sequence keeps its graph until the padded number of keys changes
    const auto ar = random_context(model_of("llama"));
    run_stored(*ar, random_tokens(60, 256), 1);
    CHECK(ar->stats().n_graph_build == 1);
}

TEST_CASE("row summaries equal what the logits say") {
    const auto     context = random_context(model_of("llada"));
    ForwardRequest request = whole_request(random_tokens(20, 256));
    const size_t   V       = static_cast<size_t>(context->info().n_vocab);
    const auto     logits  = context->forward(request).logits;
    request.output         = OutputKind::summary;
    const auto summaries   = context->forward(request).summaries;
    CHECK(summaries.size() == 20);
    for (size_t r = 0; r < summaries.size(); r++) {
        const float * row  = logits.data() + r * V;
        size_t        best = 0, second = 1;
        double        z = 0.0;
        for (size_t i = 0; i < V; i++) {
            z += std::exp(static_cast<double>(row[i]));
            if (row[i] > row[best]) {
                second = best;
                best   = i;
            } else if (i != best && (second == best || row[i] > row[second])) {
                second = i;
            }
        }
        double entropy = 0.0;
        for (size_t i = 0; i < V; i++) {
            const double p = std::exp(static_cast<double>(row[i])) / z;
            entropy -= p * std::log(p);
        }
        CHECK(summaries[r].id == static_cast<int32_t>(best));
        CHECK(summaries[r].second_id == static_cast<int32_t>(second));
        CHECK(summaries[r].prob == doctest::Approx(std::exp(row[best]) / z).epsilon(1e-5));
        CHECK(summaries[r].margin == doctest::Approx((std::exp(row[best]) - std::exp(row[second])) / z).epsilon(1e-4));
        CHECK(summaries[r].entropy == doctest::Approx(entropy).epsilon(1e-5));
    }
}

TEST_CASE("taps: shapes, rows that sum to one, scores that give the pattern, unseen keys at zero") {
    for (const RandomModel & model : {model_of("llada"), model_of("llama"), model_of("qwen3", 4)}) {
        ContextParams params   = exact_params();
        params.flash           = FlashAttention::automatic; // only a watched layer leaves the fast path
        const auto     context = random_context(model, params);
        const int64_t  T = 22, H = 4, Hkv = model.n_head_kv, D = context->info().head_dim;
        const auto     plain   = context->forward(whole_request(random_tokens(T, 256))).logits;
        ForwardRequest request = whole_request(random_tokens(T, 256));
        for (Tap tap : {Tap::attn_scores, Tap::pattern, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post}) {
            observer(request).taps.push_back({tap, 1});
        }
        for (KvUse kv : {KvUse::none, KvUse::store}) {
            std::map<Tap, std::vector<float>>     data;
            std::map<Tap, std::array<int64_t, 3>> shape;
            request.kv             = kv;
            observer(request).sink = [&](const TapEvent & event) {
                shape[event.point.tap] = event.shape;
                data[event.point.tap].assign(event.data, event.data + event.shape[0] * event.shape[1] * event.shape[2]);
                CHECK(event.point.layer == 1);
            };
            CHECK(nmse(context->forward(request).logits, plain) <=
                  1e-5); // flash attention rounds keys and values to F16
            CHECK(shape[Tap::pattern] == std::array<int64_t, 3>{H, T, T});
            CHECK(shape[Tap::attn_scores] == std::array<int64_t, 3>{H, T, T});
            CHECK(shape[Tap::rot_q] == std::array<int64_t, 3>{H, T, D});
            CHECK(shape[Tap::rot_k] == std::array<int64_t, 3>{Hkv, T, D});
            CHECK(shape[Tap::v] == std::array<int64_t, 3>{Hkv, T, D});
            CHECK(shape[Tap::resid_post] == std::array<int64_t, 3>{1, T, 64});
            const int64_t B     = model.block_length;
            double        worst = 0.0;
            for (int64_t h = 0; h < H; h++) {
                for (int64_t q = 0; q < T; q++) {
                    double sum = 0.0, z = 0.0;
                    for (int64_t k = 0; k < T; k++) {
                        z += std::exp(
                            static_cast<double>(data[Tap::attn_scores][static_cast<size_t>((h * T + q) * T + k)]));
                    }
                    for (int64_t k = 0; k < T; k++) {
                        const size_t at   = static_cast<size_t>((h * T + q) * T + k);
                        const bool   seen = model.arch == "llada" || (B > 0 ? k / B <= q / B : k <= q);
                        double       dot  = 0.0;
                        for (int64_t d = 0; d < D; d++) {
                            dot += static_cast<double>(data[Tap::rot_q][static_cast<size_t>((h * T + q) * D + d)]) *
                                   data[Tap::rot_k][static_cast<size_t>((h / (H / Hkv) * T + k) * D + d)];
                        }
                        const double score = data[Tap::attn_scores][at];
                        sum += data[Tap::pattern][at];
                        worst = std::max(worst, std::abs(data[Tap::pattern][at] - std::exp(score) / z));
                        worst = std::max(worst, seen ? std::abs(score - dot / std::sqrt(static_cast<double>(D))) : 0.0);
                        worst = std::max(worst, seen ? 0.0 : std::abs(static_cast<double>(data[Tap::pattern][at])));
                        worst = std::max(worst, seen == std::isfinite(score) ? 0.0 : 1.0);
                    }
                    worst = std::max(worst, std::abs(sum - 1.0));
                }
            }
            CHECK(worst <= 1e-5);
        }
    }
}

TEST_CASE("what a sink throws ends the forward pass and reaches the caller") {
    const auto     context = random_context(model_of("llada"));
    ForwardRequest request = whole_request(random_tokens(8, 256));
    const auto     before  = context->forward(request).logits;
    observer(request).taps = {{Tap::pattern, 0}};
    observer(request).sink = [](const TapEvent &) { fail_runtime("the disk is full"); };
    CHECK_THROWS_WITH_AS(context->forward(request), "the disk is full", Error);
    observer(request).taps.clear();
    CHECK(context->forward(request).logits == before);
}

TEST_CASE("weights by mmap and by copy, as they are and repacked, give the same") {
    for (const char * type : {"f32", "q4_0", "q8_0", "q4_K"}) {
        const std::string name = type;
        CAPTURE(name);
        RandomModel model = model_of("llama");
        model.n_embd      = 256;
        model.type        = type;
        TestModel where;
        where.path          = random_gguf(model);
        where.kernels       = Kernels::ggml;
        const auto request  = whole_request(random_tokens(20, 256));
        const auto expected = load_context(where, exact_params())->forward(request).logits;
        where.use_mmap      = false;
        CHECK(load_context(where, exact_params())->forward(request).logits == expected);
        where.use_repack = false;
        // ggml's repacked k-quant kernels round activations in blocks of their own
        const double tolerance = name == "q4_K" ? 1e-3 : 1e-6;
        CHECK(nmse(load_context(where, exact_params())->forward(request).logits, expected) <= tolerance);
        where.use_mmap = true;
        CHECK(nmse(load_context(where, exact_params())->forward(request).logits, expected) <= tolerance);
    }
}

TEST_CASE("a wrong request is an Error, and the engine goes on") {
    ContextParams params = exact_params();
    params.n_ctx         = 16;
    const auto context   = random_context(model_of("llama"), params);
    const auto rejects   = [&](const std::string & message, const std::function<void(ForwardRequest &)> & change) {
        ForwardRequest request = whole_request({1, 2, 3});
        change(request);
        CHECK_THROWS_WITH_AS(context->forward(request), message.c_str(), Error);
    };
    rejects("a forward pass got 0 tokens, expected 1 to 2^30", [](auto & r) { r.tokens.clear(); });
    rejects("token id 320 is outside the model's vocabulary of 320", [](auto & r) { r.tokens[1] = 320; });
    rejects("token id -1 is outside the model's vocabulary of 320", [](auto & r) { r.tokens[1] = -1; });
    rejects("a forward pass got 2 positions for 3 tokens", [](auto & r) { r.positions = {0, 1}; });
    rejects("position 1 follows 1, expected strictly increasing positions from 0", [](auto & r) {
        r.positions = {0, 1, 1};
    });
    rejects("position -1 follows -1, expected strictly increasing positions from 0", [](auto & r) {
        r.positions = {-1, 0, 1};
    });
    rejects("position 16 does not fit into the context of 16 (`n_ctx`)", [](auto & r) {
        r.positions = {0, 1, 16};
        r.kv        = KvUse::store;
    });
    rejects("output row 3 is outside the 3 tokens given", [](auto & r) { r.rows = {3}; });
    rejects("layer 3 does not exist, the model has layers 0 to 2", [](auto & r) {
        observer(r).taps = {{Tap::pattern, 3}};
        observer(r).sink = [](const TapEvent &) {};
    });
    CHECK(context->forward(whole_request({1, 2, 3})).logits.size() == 3 * 320);

    params.n_threads = 10000;
    CHECK_THROWS_AS(random_context(model_of("llama"), params), Error);
    params.n_threads = 1;
    params.type_k    = KvType::q8_0; // head dimension 16
    CHECK_THROWS_AS(random_context(model_of("llama"), params), Error);
}

TEST_CASE("unpacked weights compute what the quantised ones mean") {
    for (const char * type : {"q4_0", "q8_0", "q4_K", "q6_K"}) {
        CAPTURE(std::string(type));
        RandomModel model = model_of("llada");
        model.n_embd      = 256;
        model.n_ff        = 512;
        model.type        = type;
        model.tied        = true; // the embedding is looked up as it is and multiplied unpacked
        TestModel where;
        where.path          = random_gguf(model);
        const auto request  = whole_request(random_tokens(20, 256));
        const auto expected = load_context(where, exact_params())->forward(request).logits;
        where.unpack        = Unpack::f16;
        // quantised matmuls also round the activations, to 8 bits
        CHECK(nmse(load_context(where, exact_params())->forward(request).logits, expected) <= 1e-3);

        std::string notice;
        where.unpack = Unpack::automatic;
        where.log = [&](LogLevel level, const std::string & text) { notice += level == LogLevel::notice ? text : ""; };
        if (can_mul_packed(GGML_TYPE_Q4_0, 32)) { // nothing to gain where we have kernels of our own
            CHECK(load_context(where, exact_params())->forward(request).logits == expected);
            CHECK(notice.empty());
        }
        where.kernels        = Kernels::ggml;
        const auto automatic = load_context(where, exact_params())->forward(request).logits;
        where.unpack         = Unpack::f16;
        CHECK(automatic == load_context(where, exact_params())->forward(request).logits);
        CHECK(notice.rfind("unpacking the weights to F16 for speed: ", 0) == 0);

        // one token at a time would only get slower
        model.arch   = "llama";
        where.path   = random_gguf(model);
        where.unpack = Unpack::automatic;
        notice.clear();
        load_context(where, exact_params());
        CHECK(notice.empty());
    }
}

TEST_CASE("long passes, which are built in pieces, equal short ones") {
    const auto    tokens = random_tokens(1300, 256);
    ContextParams params = exact_params();
    params.n_ctx         = 1300;
    for (const char * arch : {"llama", "llada"}) {
        CAPTURE(std::string(arch));
        const auto     context = random_context(model_of(arch), params);
        ForwardRequest request = whole_request(tokens);
        // a tapped pass is not divided, so it is the reference; its last layer is, and the pieces must agree with it
        observer(request).taps = {{Tap::resid_post, 0}, {Tap::resid_post, 1}, {Tap::resid_post, 2}};
        observer(request).sink = [](const TapEvent &) {};
        const auto undivided   = context->forward(request).logits;
        observer(request).taps.clear();
        CHECK(nmse(context->forward(request).logits, undivided) <= tolerance_f32);
        request.kv = KvUse::store;
        CHECK(nmse(context->forward(request).logits, undivided) <= tolerance_f32);
        request.rows = {0, 700, 1299};
        CHECK(nmse(context->forward(request).logits, rows_of(undivided, 320, request.rows)) <= tolerance_f32);
        if (std::string(arch) == "llama") {
            context->kv_truncate(0, 0);
            CHECK(nmse(run_stored(*context, tokens, 100), undivided) <= tolerance_f32);
        }
    }
}

TEST_CASE("flash attention on few rows, which are filled up to a tile, equals plain attention") {
    const auto tokens = random_tokens(90, 256);
    for (int32_t n_sequences : {1, 2}) {
        ContextParams plain = exact_params();
        plain.n_sequences   = n_sequences;
        plain.n_ctx         = 90;
        ContextParams flash = plain;
        flash.flash         = FlashAttention::on;
        for (const RandomModel & model : {model_of("llada"), model_of("llama"), model_of("qwen3", 8)}) {
            const auto     exact = random_context(model, plain);
            const auto     fast  = random_context(model, flash);
            ForwardRequest whole = whole_request(tokens);
            whole.kv             = KvUse::store;
            ForwardRequest part  = whole_request({tokens.begin() + 40, tokens.begin() + 72});
            part.kv              = KvUse::store;
            for (int32_t i = 40; i < 72; i++) {
                part.positions.push_back(i);
            }
            part.rows      = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31};
            const auto run = [&](Context & context, const ForwardRequest & request) {
                std::vector<ForwardRequest> batch = two_sequences(request, request.tokens);
                batch.resize(static_cast<size_t>(n_sequences));
                std::vector<float> logits;
                for (const ForwardResult & result : context.forward(batch)) {
                    logits.insert(logits.end(), result.logits.begin(), result.logits.end());
                }
                return logits;
            };
            CHECK(nmse(run(*fast, whole), run(*exact, whole)) <= 1e-5);
            CHECK(nmse(run(*fast, part), run(*exact, part)) <= 1e-5);
        }
    }
}
