// Our engine against libllama on the same file: two implementations that share nothing but ggml's kernels.

#include "buoy/context.h"
#include "support/oracle.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

RandomModel model_of(const std::string & arch, const std::string & type) {
    RandomModel model;
    model.arch      = arch;
    model.type      = type;
    model.n_embd    = 128;
    model.n_layer   = 3;
    model.n_head_kv = arch == "llada" ? 4 : 2;
    model.head_dim  = arch == "qwen3" || arch == "qwen3moe" || arch == "rnd1" ? 64 : 32;
    model.tied      = arch == "qwen3" || arch == "rnd1";
    model.n_expert  = 12;
    model.n_used    = 3;
    return model;
}

struct Pair {
    std::unique_ptr<Context> ours;
    std::unique_ptr<Context> theirs;
};

Pair load_pair(const RandomModel & model, const ContextParams & params) {
    TestModel where;
    where.path = random_gguf(model);
    // activations rounded to 8 bits amplify the order of sums, so quantised weights need the same kernels on both sides: not ours
    // (test-kernel-engine.cpp has them), and not those of repacked layouts, which a tied head has only here
    where.kernels    = model.type == "f32" ? Kernels::automatic : Kernels::ggml;
    where.use_repack = model.type == "f32";
    return {load_context(where, params), load_llama_context(where, params)};
}

void check_same(const std::vector<float> & ours, const std::vector<float> & theirs, size_t n_vocab, double tolerance) {
    CHECK(nmse(ours, theirs) <= tolerance);
    CHECK(argmax_rows(ours, n_vocab) == argmax_rows(theirs, n_vocab));
}

// The tokens one by one after a first batch, as decoding does it.
std::vector<float> run_decode(Context & context, const std::vector<int32_t> & tokens, size_t n_prompt) {
    std::vector<float> all;
    for (size_t first = 0; first < tokens.size(); first += first == 0 ? n_prompt : 1) {
        const size_t n = first == 0 ? n_prompt : 1;
        const auto & logits =
            context.forward(stored_part(tokens, static_cast<int32_t>(first), static_cast<int32_t>(first + n))).logits;
        all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
}

} // namespace

TEST_CASE("one pass over a sequence") {
    const auto request = whole_request(random_tokens(48, 256));
    for (const char * arch : {"llada", "dream", "llama", "qwen2", "qwen3", "qwen3moe", "rnd1", "llada-moe"}) {
        for (const char * type : {"f32", "q4_0"}) {
            CAPTURE(std::string(arch));
            CAPTURE(std::string(type));
            const Pair   pair = load_pair(model_of(arch, type), exact_params());
            const size_t V    = static_cast<size_t>(pair.ours->info().n_vocab);
            check_same(pair.ours->forward(request).logits, pair.theirs->forward(request).logits, V,
                       std::string(type) == "f32" ? 1e-9 : 1e-6);
        }
    }
}

TEST_CASE("autoregressive decoding with stored keys and values") {
    const auto tokens = random_tokens(40, 256);
    for (const char * arch : {"llama", "qwen2", "qwen3", "qwen3moe"}) {
        for (const char * type : {"f32", "q4_0"}) {
            CAPTURE(std::string(arch));
            CAPTURE(std::string(type));
            const Pair   pair = load_pair(model_of(arch, type), exact_params());
            const size_t V    = static_cast<size_t>(pair.ours->info().n_vocab);
            check_same(run_decode(*pair.ours, tokens, 20), run_decode(*pair.theirs, tokens, 20), V,
                       std::string(type) == "f32" ? 1e-9 : 1e-6);
        }
    }
}

TEST_CASE("with flash attention") {
    ContextParams params = exact_params();
    params.flash         = FlashAttention::on;
    const auto request   = whole_request(random_tokens(48, 256));
    for (const char * arch : {"llada", "dream", "llama", "qwen2", "qwen3"}) {
        CAPTURE(std::string(arch));
        const Pair pair = load_pair(model_of(arch, "f32"), params);
        CHECK(nmse(pair.ours->forward(request).logits, pair.theirs->forward(request).logits) <= 1e-5);
    }
}

// libllama has no block-causal attention, but blocks of one token are causal and one block is full attention.
TEST_CASE("block-causal models at both ends") {
    const std::vector<int32_t> tokens = random_tokens(30, 256);
    const struct {
        const char * ours;
        const char * causal;
        const char * full;
    } families[] = {{"sdar_moe", "qwen3moe", "rnd1"}, {"sdar", "qwen3", nullptr}, {"fast-dllm-v2", "qwen2", "dream"}};
    for (const auto & family : families) {
        CAPTURE(std::string(family.ours));
        RandomModel model  = model_of(family.causal, "f32"); // the same seed gives the same weights under any name
        TestModel   where  = {};
        const auto  theirs = [&](const char * arch) {
            model.arch = arch;
            where.path = random_gguf(model);
            return load_llama_context(where, exact_params())->forward(whole_request(tokens)).logits;
        };
        const auto ours = [&](int32_t block_length) {
            model.arch             = family.ours;
            where.path             = random_gguf(model);
            ForwardRequest request = whole_request(tokens);
            request.block_length   = block_length;
            return load_context(where, exact_params())->forward(request).logits;
        };
        CHECK(nmse(ours(1), theirs(family.causal)) <= 1e-9);
        if (family.full != nullptr) {
            CHECK(nmse(ours(64), theirs(family.full)) <= 1e-9);
        }
        CHECK(nmse(ours(8), ours(1)) > 1e-4);
    }
}

TEST_CASE("RoPE scaling") {
    const auto request = whole_request(random_tokens(48, 256));
    for (const char * arch : {"llama", "qwen2", "dream"}) {
        for (const char * scaling : {"linear", "yarn"}) {
            CAPTURE(std::string(arch));
            CAPTURE(std::string(scaling));
            RandomModel model  = model_of(arch, "f32");
            const auto  plain  = load_pair(model, exact_params()).ours->forward(request).logits;
            model.rope_scaling = scaling;
            const Pair   pair  = load_pair(model, exact_params());
            const size_t V     = static_cast<size_t>(pair.ours->info().n_vocab);
            check_same(pair.ours->forward(request).logits, pair.theirs->forward(request).logits, V, 1e-9);
            CHECK(nmse(plain, pair.theirs->forward(request).logits) >
                  1e-4); // the scaling was not simply ignored by both
        }
    }
}

TEST_CASE("the same attention patterns") {
    for (const char * arch : {"llada", "dream", "llama", "qwen2", "qwen3"}) {
        CAPTURE(std::string(arch));
        const Pair     pair    = load_pair(model_of(arch, "f32"), exact_params());
        ForwardRequest request = whole_request(random_tokens(30, 256));
        for (int32_t il = 0; il < pair.ours->info().n_layer; il++) {
            observer(request).taps.push_back({Tap::pattern, il});
        }
        std::vector<float> ours, theirs;
        observer(request).sink = [&](const TapEvent & e) {
            ours.insert(ours.end(), e.data, e.data + e.shape[0] * e.shape[1] * e.shape[2]);
        };
        pair.ours->forward(request);
        observer(request).sink = [&](const TapEvent & e) {
            theirs.insert(theirs.end(), e.data, e.data + e.shape[0] * e.shape[1] * e.shape[2]);
        };
        pair.theirs->forward(request);
        CHECK(ours.size() == 3 * 4 * 30 * 30);
        CHECK(max_abs_diff(ours, theirs) <= 1e-5);
    }
}
