// Passes on Vulkan that are made in other ways: types of files and of stored K/V, parts of a sequence, long ones, summaries.

#include "support/batch.h"
#include "support/oracle.h"
#include "support/random-context.h"
#include "support/vulkan.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace buoy;
using namespace buoy::test;

namespace {

// Rows of 256, which every quantisation takes.
RandomModel wide_model(const std::string & arch, const std::string & type) {
    RandomModel model;
    model.arch        = arch;
    model.type        = type;
    model.n_embd      = 256;
    model.n_ff        = 512;
    model.n_ff_expert = 256;
    model.n_head_kv   = 2;
    return model;
}

} // namespace

TEST_CASE("every type of file") {
    // activations are rounded to 8 bits for a quantised product on a CPU, not on a GPU, and a token may go to another expert
    for (const std::string type : {"f16", "bf16", "q8_0", "q4_0", "q5_1", "q4_K", "q6_K", "iq4_xs"}) {
        CAPTURE(type);
        const Devices        on      = on_both(random_gguf(wide_model("qwen3", type)), exact_params());
        const ForwardRequest request = whole_request(random_tokens(22, 256));
        CHECK(fallen_back(*on.vulkan, request) == std::vector<std::string>{});
        const auto expected = on.cpu->forward(request).logits;
        CHECK(nmse(on.vulkan->forward(request).logits, expected) <= (type == "f16" || type == "bf16" ? 1e-4 : 1e-3));
    }
    const Devices experts = on_both(random_gguf(wide_model("llada2", "q4_0")), exact_params());
    CHECK(fallen_back(*experts.vulkan, whole_request(random_tokens(22, 256))) == std::vector<std::string>{});
}

TEST_CASE("every type of stored keys and values") {
    for (const FlashAttention flash : {FlashAttention::off, FlashAttention::on}) {
        for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) {
            CAPTURE(static_cast<int>(flash));
            CAPTURE(static_cast<int>(type));
            ContextParams params;
            params.flash  = flash;
            params.type_k = params.type_v = type;
            const Devices  on             = on_both(random_gguf(wide_model("qwen3", "f32")), params);
            ForwardRequest request        = whole_request(random_tokens(40, 256));
            request.kv                    = KvUse::store;
            if (type == KvType::q8_0) { // for which a CPU rounds queries to 8 bits, too
                CHECK(fallen_back(*on.vulkan, request) == std::vector<std::string>{});
                CHECK(nmse(on.vulkan->forward(request).logits, on.cpu->forward(request).logits) <= 1e-4);
            } else {
                check_logits(on, request);
            }
        }
    }
}

TEST_CASE("causal decoding, one token at a time") {
    const Devices on     = on_both(random_gguf(wide_model("llama", "f32")), {});
    const auto    tokens = random_tokens(12, 256);
    for (int32_t i = 0; i < 12; i++) {
        check_logits(on, stored_part(tokens, i, i + 1));
    }
}

TEST_CASE("long passes, which are built in pieces") {
    for (const FlashAttention flash : {FlashAttention::off, FlashAttention::on}) {
        ContextParams params   = exact_params();
        params.flash           = flash;
        RandomModel model      = wide_model("llada", "f32");
        model.n_head_kv        = 4;
        const Devices  on      = on_both(random_gguf(model), params);
        ForwardRequest request = whole_request(random_tokens(600, 256));
        request.rows           = {0, 300, 599};
        check_logits(on, request);
        request.kv = KvUse::store;
        check_logits(on, request);
    }
}

TEST_CASE("a batch of sequences equals single passes") {
    for (const RandomModel & model : attention_kinds()) {
        CAPTURE(model.arch);
        const std::string path = random_gguf(model);
        check_batch(*on_both(path, many_sequences()).vulkan, *on_both(path, many_sequences()).vulkan);
    }
}

TEST_CASE("row summaries") {
    for (const int32_t V : {300, 40000}) {
        CAPTURE(V);
        RandomModel model      = wide_model("llada", "f32");
        model.n_head_kv        = 4;
        model.n_layer          = 1;
        model.n_vocab          = V;
        const Devices  on      = on_both(random_gguf(model), exact_params());
        ForwardRequest request = whole_request(random_tokens(20, 256));
        request.output         = OutputKind::summary;
        CHECK(fallen_back(*on.vulkan, request) == std::vector<std::string>{});
        const std::vector<RowSummary> expected = on.cpu->forward(request).summaries;
        const std::vector<RowSummary> actual   = on.vulkan->forward(request).summaries;
        REQUIRE(actual.size() == expected.size());
        for (size_t i = 0; i < actual.size(); i++) {
            CHECK(actual[i].id == expected[i].id);
            CHECK(actual[i].second_id == expected[i].second_id);
            CHECK(std::abs(actual[i].prob - expected[i].prob) <= 1e-4f);
            CHECK(std::abs(actual[i].margin - expected[i].margin) <= 1e-4f);
            CHECK(std::abs(actual[i].entropy - expected[i].entropy) <= 1e-3f * expected[i].entropy);
        }
    }
}
