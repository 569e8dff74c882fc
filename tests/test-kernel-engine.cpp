// Whole passes with our kernels and with ggml's.

#include "kernel/kernels.h"
#include "support/oracle.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace buoy;
using namespace buoy::test;

namespace {

RandomModel model_of(const std::string & arch, const std::string & type, int32_t block_length = 0) {
    RandomModel model;
    model.arch         = arch;
    model.n_layer      = 3;
    model.n_embd       = 256;
    model.n_ff         = 512;
    model.n_head       = 4;
    model.n_head_kv    = 2;
    model.head_dim     = 64;
    model.type         = type;
    model.block_length = block_length;
    return model;
}

std::unique_ptr<Context> load(const std::string & path, Kernels kernels, const ContextParams & params) {
    TestModel where;
    where.path    = path;
    where.kernels = kernels;
    return load_context(where, params);
}

bool has_kernels() {
    if (kernel_table() == nullptr) {
        MESSAGE("skipped: no kernels for this processor");
    }
    return kernel_table() != nullptr;
}

// The whole sequence into the store, then a part of it again with other tokens, as a step inside a block does.
std::vector<float> run_block(Context & context, int32_t n, int32_t first, int32_t last) {
    ForwardRequest request = whole_request(random_tokens(static_cast<size_t>(n), 256));
    request.kv             = KvUse::store;
    context.kv_truncate(0, 0);
    context.forward(request);
    request.tokens = random_tokens(static_cast<size_t>(last - first), 256, 7);
    request.positions.clear();
    request.rows.clear();
    for (int32_t i = first; i < last; i++) {
        request.positions.push_back(i);
        request.rows.push_back(i - first);
    }
    return context.forward(request).logits;
}

} // namespace

// Both round activations to 8 bits, which a layer's sums in another order are enough to change. So they are not compared with
// each other but with what the weights mean.
TEST_CASE("quantised products lose no more than ggml's") {
    for (const auto & [arch, type] : std::vector<std::pair<std::string, std::string>>{{"dream", "q4_0"},
                                                                                      {"dream", "q8_0"},
                                                                                      {"dream", "q4_K"},
                                                                                      {"dream", "q6_K"},
                                                                                      {"llada-moe", "q4_0"},
                                                                                      {"llada2", "q8_0"},
                                                                                      {"diffusion-gemma", "q8_0"},
                                                                                      {"diffusion-gemma", "q4_0"}}) {
        if (!has_kernels()) {
            return;
        }
        CAPTURE(arch);
        CAPTURE(type);
        RandomModel model = model_of(arch, type);
        model.n_used      = model.n_expert; // or rounding decides which are used
        TestModel where;
        where.path        = random_gguf(model);
        const auto ours   = load(where.path, Kernels::ours, exact_params());
        const auto any    = load(where.path, Kernels::automatic, exact_params());
        const auto theirs = load(where.path, Kernels::ggml, exact_params());
        where.unpack      = Unpack::f16;
        const auto exact  = load_context(where, exact_params());
        for (const size_t n : {1u, 2u, 5u, 48u}) {
            CAPTURE(n);
            const auto request = whole_request(random_tokens(n, 256));
            const auto wanted  = exact->forward(request).logits;
            const auto lost    = nmse(theirs->forward(request).logits, wanted);
            CHECK(lost < (arch == "diffusion-gemma" ? 1e-2 : 1e-3)); // norms behind each branch bring rounding out
            CHECK(nmse(ours->forward(request).logits, wanted) <= 1.5 * lost); // noise of the same size
            CHECK(nmse(any->forward(request).logits, wanted) <= 1.5 * lost);
        }
    }
}

TEST_CASE("one token at a time: no more is lost, whoever multiplies") {
    for (const char * type : {"q4_0", "q5_1", "q4_K", "q5_K"}) { // with and without a repacked layout of ggml's
        CAPTURE(std::string(type));
        TestModel where;
        where.path        = random_gguf(model_of("qwen3", type));
        const auto theirs = load(where.path, Kernels::ggml, exact_params());
        where.unpack      = Unpack::f16;
        const auto exact  = load_context(where, exact_params());
        for (const Kernels kernels : {Kernels::automatic, Kernels::ours}) {
            const auto context = load(where.path, kernels, exact_params());
            for (const size_t n : {1u, 2u, 30u}) {
                CAPTURE(n);
                const auto request = whole_request(random_tokens(n, 256));
                const auto wanted  = exact->forward(request).logits;
                const auto lost    = nmse(theirs->forward(request).logits, wanted);
                CHECK(nmse(context->forward(request).logits, wanted) <= 1.5 * lost);
            }
        }
    }
}

TEST_CASE("what multiplies each type of weights is logged") {
    if (!has_kernels()) {
        return;
    }
    RandomModel model = model_of("llada-moe", "q4_0");
    TestModel   where;
    where.path              = random_gguf(model);
    const std::string set   = kernel_set_name(kernel_table()->set);
    const auto        texts = [&](Kernels kernels) {
        std::vector<std::string> lines;
        where.kernels = kernels;
        where.log     = [&](LogLevel level, const std::string & text) {
            if (level == LogLevel::info && text.find("kernels") != std::string::npos) {
                lines.push_back(text);
            }
        };
        load_context(where, exact_params());
        return lines;
    };
    CHECK(texts(Kernels::ours) == std::vector<std::string>{"F32: ggml's kernels",
                                                           "Q4_0 experts: our kernels (" + set + ")",
                                                           "Q4_0: our kernels (" + set + ")"});
    where.use_repack = false;
    CHECK(texts(Kernels::ggml) ==
          std::vector<std::string>{"F32: ggml's kernels", "Q4_0 experts: ggml's kernels", "Q4_0: ggml's kernels"});
}

TEST_CASE("fused attention is as exact as plain attention") {
    for (const char * arch : {"llada", "llama", "dream"}) { // full, causal, blocks
        for (const KvType kv : {KvType::f32, KvType::f16, KvType::q8_0}) {
            if (!has_kernels()) {
                return;
            }
            CAPTURE(std::string(arch));
            CAPTURE(static_cast<int>(kv));
            const std::string path  = random_gguf(model_of(arch, "f32", std::string(arch) == "dream" ? 8 : 0));
            ContextParams     plain = exact_params();
            plain.type_k            = kv;
            plain.type_v            = kv;
            ContextParams fused     = plain;
            fused.flash             = FlashAttention::automatic;
            const auto a = load(path, Kernels::ours, plain), b = load(path, Kernels::ours, fused);
            const auto request = whole_request(random_tokens(70, 256));
            CHECK(nmse(b->forward(request).logits, a->forward(request).logits) <= 1e-10);
            // plain attention multiplies stored keys of 16 and 8 bits with queries rounded to as many
            const double tolerance = kv == KvType::f32 ? 1e-10 : kv == KvType::f16 ? 1e-5 : 1e-3;
            CHECK(nmse(run_block(*b, 70, 20, 53), run_block(*a, 70, 20, 53)) <= tolerance);
        }
    }
}

TEST_CASE("fused attention keeps sequences apart") {
    if (!has_kernels()) {
        return;
    }
    const std::string path    = random_gguf(model_of("llada", "f32"));
    ContextParams     one     = exact_params();
    one.flash                 = FlashAttention::automatic;
    ContextParams two         = one;
    two.n_sequences           = 2;
    const auto         first  = random_tokens(20, 256, 1);
    const auto         second = random_tokens(20, 256, 2);
    const auto         single = load(path, Kernels::ours, one);
    std::vector<float> apart  = single->forward(whole_request(first)).logits;
    const auto &       more   = single->forward(whole_request(second)).logits;
    apart.insert(apart.end(), more.begin(), more.end());
    const auto         context = load(path, Kernels::ours, two);
    std::vector<float> both;
    for (const ForwardResult & result : context->forward(two_sequences(whole_request(first), second))) {
        both.insert(both.end(), result.logits.begin(), result.logits.end());
    }
    CHECK(nmse(both, apart) <= 1e-10);
}

TEST_CASE("summaries: ours are ggml's") {
    for (const char * arch : {"llada", "llama"}) {
        if (!has_kernels()) {
            return;
        }
        const std::string path    = random_gguf(model_of(arch, "f32"));
        auto              request = whole_request(random_tokens(30, 256));
        request.output            = OutputKind::summary;
        const auto ours           = load(path, Kernels::ours, exact_params())->forward(request).summaries;
        const auto theirs         = load(path, Kernels::ggml, exact_params())->forward(request).summaries;
        REQUIRE(ours.size() == theirs.size());
        for (size_t i = 0; i < ours.size(); i++) {
            CHECK(ours[i].id == theirs[i].id);
            CHECK(ours[i].second_id == theirs[i].second_id);
            CHECK(std::abs(ours[i].prob - theirs[i].prob) <= 1e-5f);
            CHECK(std::abs(ours[i].margin - theirs[i].margin) <= 1e-5f);
            CHECK(std::abs(ours[i].entropy - theirs[i].entropy) <= 1e-4f);
        }
    }
}

namespace {

// Everything a pass shows of its patterns, one tap after the other.
std::vector<float> shown_patterns(Context & context, const TapSelection & selection) {
    std::vector<float> shown;
    ForwardRequest     request  = whole_request(random_tokens(40, 256));
    request.rows                = {3, 39}; // the last layer drops the others, taps show all
    observer(request).selection = selection;
    observer(request).sink      = [&](const TapEvent & event) {
        const auto n = static_cast<size_t>(event.shape[0] * event.shape[1] * event.shape[2]);
        shown.insert(shown.end(), event.data, event.data + n);
    };
    for (int32_t layer : {0, 2}) {
        for (const TapReduce reduce : {TapReduce::none, TapReduce::received, TapReduce::regions, TapReduce::heads}) {
            observer(request).taps.push_back({Tap::pattern, layer, reduce});
        }
    }
    context.forward(request);
    return shown;
}

} // namespace

TEST_CASE("patterns and their means: ours are ggml's") {
    for (const char * arch : {"llada", "llama", "dream"}) { // full, causal, blocks
        if (!has_kernels()) {
            return;
        }
        CAPTURE(std::string(arch));
        const std::string path  = random_gguf(model_of(arch, "f32", std::string(arch) == "dream" ? 8 : 0));
        ContextParams     fused = exact_params();
        fused.flash             = FlashAttention::automatic;
        const auto   ours = load(path, Kernels::ours, fused), theirs = load(path, Kernels::ggml, exact_params());
        TapSelection all;
        all.regions       = {{0, 1, 2}, {10, 11, 39}};
        TapSelection some = all;
        some.heads        = {1, 3};
        some.rows         = {0, 17, 38};
        for (const TapSelection & selection : {all, some}) {
            const std::vector<float> a = shown_patterns(*ours, selection), b = shown_patterns(*theirs, selection);
            REQUIRE(a.size() == b.size());
            float worst = 0.0f;
            for (size_t i = 0; i < a.size(); i++) {
                worst = std::max(worst, std::abs(a[i] - b[i]));
            }
            CHECK(worst <= 1e-5f);
        }
    }
}
