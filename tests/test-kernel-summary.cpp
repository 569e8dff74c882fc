#include "engine/row-summary.h"
#include "kernel/kernels.h"
#include "kernel/summary.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <cmath>
#include <random>
#include <vector>

using namespace buoy;

namespace {

// Rows of V logits, through the graph.
std::vector<RowSummary> summarize(const std::vector<float> & logits, int64_t V, int n_threads) {
    const int64_t    n = static_cast<int64_t>(logits.size()) / V;
    ggml_context_ptr ctx{ggml_init({logits.size() * sizeof(float) + (1u << 20), nullptr, false})};
    ggml_tensor *    x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, V, n);
    std::copy(logits.begin(), logits.end(), static_cast<float *>(x->data));
    ggml_tensor * y     = summarize_rows(ctx.get(), x);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
    const auto * rows = static_cast<const RowSummary *>(y->data);
    return {rows, rows + n};
}

std::vector<float> random_logits(int64_t n, float spread) {
    std::mt19937                    random(5);
    std::normal_distribution<float> normal(3.0f, spread);
    std::vector<float>              values(static_cast<size_t>(n));
    for (float & value : values) {
        value = normal(random);
    }
    return values;
}

bool has_kernels() {
    if (kernel_table() == nullptr) {
        MESSAGE("skipped: no kernels for this processor");
    }
    return kernel_table() != nullptr;
}

} // namespace

TEST_CASE("rows are summarised as in double precision") {
    for (const int64_t V : {1, 2, 7, 8, 9, 250, 4097, 128000}) {
        for (const float spread : {0.0f, 1.0f, 20.0f}) { // all the same, flat, peaked
            if (!has_kernels()) {
                return;
            }
            CAPTURE(V);
            CAPTURE(spread);
            std::vector<float> logits = random_logits(3 * V, spread);
            logits[0]                 = V > 2 ? -INFINITY : logits[0];
            const auto rows           = summarize(logits, V, 2);
            for (size_t i = 0; i < 3; i++) {
                const RowSummary want =
                    summarize_row(logits.data() + i * static_cast<size_t>(V), static_cast<size_t>(V));
                CHECK(rows[i].id == want.id);
                CHECK(rows[i].second_id == want.second_id);
                CHECK(std::abs(rows[i].prob - want.prob) <= 2e-6f * want.prob);
                CHECK(std::abs(rows[i].margin - want.margin) <= 2e-6f);
                CHECK(std::abs(rows[i].entropy - want.entropy) <= 1e-5f);
            }
        }
    }
}

TEST_CASE("a row that is not a number has no probability") {
    if (!has_kernels()) {
        return;
    }
    for (const size_t at : {0u, 5u, 98u, 99u}) {
        std::vector<float> logits = random_logits(100, 1.0f);
        logits[at]                = NAN;
        CHECK(std::isnan(summarize(logits, 100, 1)[0].prob));
    }
}

TEST_CASE("exponentials are right to a few units in the last place") {
    std::vector<float> x, y;
    for (float v = -100.0f; v < 80.0f; v += 0.0371f) {
        x.push_back(v);
    }
    x.push_back(-INFINITY);
    y.resize(x.size());
    exponentials(x.data(), y.data(), static_cast<int64_t>(x.size()), 0.5f, 2.0f);
    for (size_t i = 0; i + 1 < x.size(); i++) {
        const double want = std::exp(0.5 * static_cast<double>(x[i] - 2.0f));
        CHECK(std::abs(static_cast<double>(y[i]) - want) <= 3e-7 * want);
    }
    CHECK(y.back() == 0.0f);
}
