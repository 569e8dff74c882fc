// What the machine can do, and what of it a pass asks for.

#include "buoy/machine.h"
#include "kernel/kernels.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

ForwardRequest request_of(size_t n, const std::vector<int32_t> & rows) {
    ForwardRequest request;
    request.tokens = random_tokens(n, 256);
    request.rows   = rows;
    return request;
}

ProductWork work_of(const RandomModel & model, const ForwardRequest & request, Kernels kernels,
                    FlashAttention flash = FlashAttention::automatic) {
    TestModel where;
    where.path           = random_gguf(model);
    where.kernels        = kernels;
    ContextParams params = exact_params();
    params.flash         = flash;
    const auto context   = load_context(where, params);
    context->forward(request);
    return context->stats().work;
}

} // namespace

TEST_CASE("peaks are positive where there are such instructions") {
    const MachinePeak one = measure_peak(1), two = measure_peak(2);
    CHECK(one.n_threads == 1);
    CHECK(two.n_threads == 2);
    for (const MachinePeak & peak : {one, two}) {
        CHECK(peak.memory > 0.0);
        CHECK((peak.f32 > 0.0) == (kernel_table() != nullptr));
        CHECK((peak.int8 > 0.0) == (kernel_table() != nullptr));
        CHECK(peak.bf16 >= 0.0);
        CHECK(peak.instructions == (kernel_table() != nullptr ? kernel_set_name(kernel_table()->set) : ""));
    }
}

TEST_CASE("a pass's products are counted, whoever multiplies") {
    constexpr int64_t E = 64, L = 3, FF = 96, V = 320, n = 10;
    for (const char * type : {"q4_0", "f16", "bf16", "f32"}) {
        CAPTURE(std::string(type));
        RandomModel model;
        model.n_embd  = E;
        model.n_layer = L;
        model.n_ff    = FF;
        model.n_vocab = V;
        model.type    = type;
        // four matrices of attention and three of the FFN
        constexpr int64_t layer = 4 * E * E + 3 * E * FF, all = (L * layer + E * V) * n;
        for (const Kernels kernels : {Kernels::automatic, Kernels::ours, Kernels::ggml}) {
            for (const FlashAttention flash : {FlashAttention::off, FlashAttention::automatic}) {
                const ProductWork work = work_of(model, request_of(n, range(0, n)), kernels, flash);
                CHECK(work.quantised == (model.type == "q4_0" ? all : 0));
                CHECK(work.f16 == (model.type == "f16" ? all : 0));
                CHECK(work.bf16 == (model.type == "bf16" ? all : 0));
                CHECK(work.f32 == (model.type == "f32" ? all : 0));
                const int64_t n_weights = L * layer + E * V;
                CHECK(static_cast<int64_t>(work.weight_bytes) == (model.type == "q4_0"  ? n_weights * 18 / 32
                                                                  : model.type == "f32" ? n_weights * 4
                                                                                        : n_weights * 2));
            }
        }
        // of the last layer, rows that nobody asks for need keys and values only
        const ProductWork few = work_of(model, request_of(n, {0}), Kernels::automatic);
        CHECK(few.quantised + few.f16 + few.bf16 + few.f32 ==
              (L - 1) * layer * n + 2 * E * E * n + (layer - 2 * E * E) + E * V);
    }
}

TEST_CASE("of experts, those that rows can have chosen count as read") {
    constexpr int64_t E = 64, X = 8, U = 2, FX = 32, V = 320;
    RandomModel       model;
    model.arch        = "llada-moe";
    model.n_layer     = 1;
    model.n_embd      = E;
    model.n_expert    = X;
    model.n_used      = U;
    model.n_ff_expert = FX;
    model.n_vocab     = V;
    model.type        = "q4_0";
    for (const Kernels kernels : {Kernels::ours, Kernels::ggml}) {
        for (const int64_t n : {1, 3, 20}) {
            CAPTURE(n);
            const ProductWork work =
                work_of(model, request_of(static_cast<size_t>(n), range(0, static_cast<int32_t>(n))), kernels);
            CHECK(work.quantised == (4 * E * E + U * 3 * E * FX + E * V) * n);
            CHECK(work.f32 == E * X * n); // the router
            const int64_t n_experts = std::min(U * n, X);
            CHECK(static_cast<int64_t>(work.weight_bytes) ==
                  (4 * E * E + n_experts * 3 * E * FX + E * V) * 18 / 32 + E * X * 4);
        }
    }
}

TEST_CASE("work adds up over passes") {
    RandomModel model   = small_model("llada");
    const auto  context = random_context(model);
    context->forward(request_of(8, {0, 1}));
    const ProductWork once = context->stats().work;
    context->forward(request_of(8, {0, 1}));
    const ProductWork twice = context->stats().work;
    CHECK(once.f32 > 0);
    CHECK(twice.f32 == 2 * once.f32);
    CHECK(twice.weight_bytes == 2 * once.weight_bytes);
}
