// The mean of all embeddings under a softmax, and gates that are GELUs.

#include "kernel/kernels.h"
#include "kernel/soft-embedding.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace buoy;

namespace {

std::vector<float> normals(int64_t n, float deviation, uint32_t seed) {
    std::mt19937                    random(seed);
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float>              values(static_cast<size_t>(n));
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
}

// Embeddings of a type as it stores them, and what that means.
struct Embeddings {
    Embeddings(ggml_type of, int64_t n_cols, int64_t n_rows) : type(of), E(n_cols), V(n_rows) {
        const std::vector<float> exact = normals(E * V, 1.0f, 3);
        stored.resize(ggml_row_size(type, E) * static_cast<size_t>(V));
        ggml_quantize_chunk(type, exact.data(), stored.data(), 0, V, E, nullptr);
        values.resize(exact.size());
        if (type == GGML_TYPE_F32) {
            values = exact;
        } else {
            ggml_get_type_traits(type)->to_float(stored.data(), values.data(), E * V);
        }
    }

    ggml_type            type;
    int64_t              E, V;
    std::vector<uint8_t> stored;
    std::vector<float>   values;
};

std::vector<float> run(const Embeddings & embed, const std::vector<float> & logits, float temperature, int n_threads) {
    const int64_t    n       = static_cast<int64_t>(logits.size()) / embed.V;
    const size_t     n_bytes = embed.stored.size() + logits.size() * 4 + static_cast<size_t>(embed.E * n) * 4 * 20;
    ggml_context_ptr ctx{ggml_init({n_bytes + (1u << 20), nullptr, false})};
    ggml_tensor *    e = ggml_new_tensor_2d(ctx.get(), embed.type, embed.E, embed.V);
    ggml_tensor *    z = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, embed.V, n);
    ggml_tensor *    t = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, 1);
    std::copy(embed.stored.begin(), embed.stored.end(), static_cast<uint8_t *>(e->data));
    std::copy(logits.begin(), logits.end(), static_cast<float *>(z->data));
    *static_cast<float *>(t->data) = temperature;
    ggml_tensor * y                = mean_embedding(ctx.get(), e, z, t);
    ggml_cgraph * graph            = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
    const auto * data = static_cast<const float *>(y->data);
    return {data, data + embed.E * n};
}

// In double precision, nothing left out.
std::vector<float> expected(const Embeddings & embed, const std::vector<float> & logits, double temperature) {
    std::vector<float> out;
    const auto         V = static_cast<size_t>(embed.V), E = static_cast<size_t>(embed.E);
    for (size_t row = 0; row < logits.size() / V; row++) {
        const float *       z       = logits.data() + row * V;
        const double        largest = static_cast<double>(*std::max_element(z, z + V));
        double              sum     = 0.0;
        std::vector<double> mean(E);
        for (size_t id = 0; id < V; id++) {
            const double p = std::exp((static_cast<double>(z[id]) - largest) / temperature);
            sum += p;
            for (size_t i = 0; i < E; i++) {
                mean[i] += p * static_cast<double>(embed.values[id * E + i]);
            }
        }
        for (const double value : mean) {
            out.push_back(static_cast<float>(value / sum));
        }
    }
    return out;
}

double largest_difference(const std::vector<float> & a, const std::vector<float> & b) {
    REQUIRE(a.size() == b.size());
    double most = 0.0;
    for (size_t i = 0; i < a.size(); i++) {
        most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
    return most;
}

} // namespace

TEST_CASE("mean embeddings are those of double precision, whatever the weights' type") {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        CAPTURE(std::string(ggml_type_name(type)));
        const Embeddings embed(type, 224, 1003); // strips of columns and pieces of rows that are not whole
        for (const float spread : {0.0f, 1.0f, 9.0f, 60.0f}) { // all the same, flat, peaked, one token
            CAPTURE(spread);
            const std::vector<float> logits = normals(7 * embed.V, spread, 11);
            const std::vector<float> wanted = expected(embed, logits, 0.7);
            const std::vector<float> found  = run(embed, logits, 0.7f, 2);
            CHECK(largest_difference(found, wanted) <= 3e-6); // embeddings are about 1
            CHECK(run(embed, logits, 0.7f, 1) == found);
        }
    }
}

TEST_CASE("GELU gates are those of double precision") {
    for (const KernelTable * table : kernel_tables()) {
        std::vector<float> a = normals(64, 3.0f, 5), x = a;
        a[0] = x[0] = -40.0f;
        a[1] = x[1]                = 40.0f;
        const std::vector<float> b = normals(64, 1.0f, 6);
        table->gate_gelu(a.data(), b.data(), 64);
        for (size_t i = 0; i < a.size(); i++) {
            const double v    = static_cast<double>(x[i]);
            const double gelu = 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
            CHECK(std::abs(static_cast<double>(a[i]) - gelu * static_cast<double>(b[i])) <= 2e-6 * (1.0 + std::abs(v)));
        }
    }
}
