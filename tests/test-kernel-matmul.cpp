#include "kernel/matmul.h"

#include "kernel/kernels.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

// Our kernels against the definition, in double precision: what a type's weights mean (ggml's to_float) times the activations.

using namespace buoy;

namespace {

std::vector<float> random_values(int64_t n, uint32_t seed) {
    std::mt19937                    random(seed);
    std::normal_distribution<float> normal;
    std::vector<float>              values(static_cast<size_t>(n));
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
}

struct Product {
    ggml_type          type;
    int64_t            K, M, N;
    std::vector<float> x; // [N, K]
    std::vector<float> w; // [M, K], as the type keeps them
    std::vector<float> y; // [N, M], as the kernel computes it
};

Product multiply(ggml_type type, int64_t K, int64_t M, int64_t N, int n_threads) {
    Product       p = {type, K, M, N, random_values(K * N, 1), random_values(K * M, 2), {}};
    const int64_t i = N / 2 * K; // a row of zeros, and one value that dwarfs its block
    std::fill(p.x.begin() + i, p.x.begin() + i + K, 0.0f);
    p.x[0] = 1000.0f;

    const size_t     size = static_cast<size_t>(K * (M + N + 2) + M * N) * 8 + (1u << 20);
    ggml_context_ptr ctx{ggml_init({size, nullptr, false})};
    ggml_tensor *    w = ggml_new_tensor_2d(ctx.get(), type, K, M);
    ggml_tensor *    x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, K, N);
    ggml_quantize_chunk(type, p.w.data(), w->data, 0, M, K, nullptr);
    for (int64_t row = 0; row < M; row++) {
        ggml_get_type_traits(type)->to_float(static_cast<const char *>(w->data) + w->nb[1] * static_cast<size_t>(row),
                                             p.w.data() + row * K, K);
    }
    std::copy(p.x.begin(), p.x.end(), static_cast<float *>(x->data));
    ggml_tensor * y     = mul_packed(ctx.get(), w, pack_rows(ctx.get(), x), N);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
    p.y.assign(static_cast<float *>(y->data), static_cast<float *>(y->data) + M * N);
    return p;
}

// Each 32 activations in 255 steps of their largest.
std::vector<float> in_8_bits(std::vector<float> x) {
    for (size_t at = 0; at < x.size(); at += 32) {
        float top = 0.0f;
        for (size_t i = at; i < at + 32; i++) {
            top = std::max(top, std::abs(x[i]));
        }
        for (size_t i = at; i < at + 32 && top > 0.0f; i++) {
            x[i] = std::nearbyint(x[i] * (127.0f / top)) * (top / 127.0f);
        }
    }
    return x;
}

// Σ (y − w·x)² / Σ (w·x)²
double nmse(const Product & p, const std::vector<float> & x) {
    double error = 0.0, power = 0.0;
    for (int64_t n = 0; n < p.N; n++) {
        for (int64_t m = 0; m < p.M; m++) {
            double sum = 0.0;
            for (int64_t k = 0; k < p.K; k++) {
                sum += static_cast<double>(p.w[static_cast<size_t>(m * p.K + k)]) *
                       static_cast<double>(x[static_cast<size_t>(n * p.K + k)]);
            }
            const double difference = static_cast<double>(p.y[static_cast<size_t>(n * p.M + m)]) - sum;
            error += difference * difference;
            power += sum * sum;
        }
    }
    return error / power;
}

struct Type {
    ggml_type type;
    int64_t   block; // columns
};

const Type types[] = {{GGML_TYPE_Q4_0, 32},  {GGML_TYPE_Q4_1, 32},  {GGML_TYPE_Q5_0, 32},   {GGML_TYPE_Q5_1, 32},
                      {GGML_TYPE_Q8_0, 32},  {GGML_TYPE_Q2_K, 256}, {GGML_TYPE_Q3_K, 256},  {GGML_TYPE_Q4_K, 256},
                      {GGML_TYPE_Q5_K, 256}, {GGML_TYPE_Q6_K, 256}, {GGML_TYPE_IQ4_NL, 32}, {GGML_TYPE_IQ4_XS, 256},
                      {GGML_TYPE_MXFP4, 32}};

} // namespace

TEST_CASE("packed products are those of the weights and 8-bit activations, for any size") {
    for (const Type & type : types) {
        if (!can_mul_packed(type.type, type.block)) {
            MESSAGE("skipped: no kernels for this processor");
            return;
        }
        CAPTURE(ggml_type_name(type.type));
        const int64_t shapes[][3] = {{1, 1, 1},   {2, 7, 3},  {3, 8, 4},   {5, 9, 5},
                                     {1, 24, 33}, {8, 70, 2}, {43, 10, 6}, {9, 20, 1}};
        for (const auto & [blocks, M, N] : shapes) {
            CAPTURE(blocks);
            CAPTURE(M);
            CAPTURE(N);
            const Product p = multiply(type.type, blocks * type.block, M, N, 1);
            CHECK(nmse(p, in_8_bits(p.x)) < 1e-11); // float sums of up to 11008 terms
            CHECK(nmse(p, p.x) < 1e-4);             // what 8 bits for activations cost
        }
    }
}

TEST_CASE("packed products don't depend on the number of threads") {
    for (const Type & type : types) {
        if (can_mul_packed(type.type, type.block)) {
            const Product one = multiply(type.type, 2 * type.block, 50, 9, 1);
            CHECK(multiply(type.type, 2 * type.block, 50, 9, 2).y == one.y);
            CHECK(multiply(type.type, 2 * type.block, 50, 9, 5).y == one.y);
        }
    }
}

TEST_CASE("gated products are silu of the one times the other") {
    if (!can_mul_packed(GGML_TYPE_Q4_0, 64) || !can_mul_packed(GGML_TYPE_Q6_K, 256)) {
        MESSAGE("skipped: no kernels for this processor");
        return;
    }
    for (const int64_t M : {1, 8, 27}) {
        for (const int n_threads : {1, 3}) {
            ggml_context_ptr ctx{ggml_init({4u << 20, nullptr, false})};
            ggml_tensor *    gate = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_Q4_0, 256, M); // types may differ
            ggml_tensor *    up   = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_Q6_K, 256, M);
            ggml_tensor *    x    = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 256, 7);
            ggml_quantize_chunk(gate->type, random_values(256 * M, 3).data(), gate->data, 0, M, 256, nullptr);
            ggml_quantize_chunk(up->type, random_values(256 * M, 4).data(), up->data, 0, M, 256, nullptr);
            const std::vector<float> values = random_values(256 * 7, 5);
            std::copy(values.begin(), values.end(), static_cast<float *>(x->data));

            ggml_tensor * packed = pack_rows(ctx.get(), x);
            ggml_tensor * a      = mul_packed(ctx.get(), gate, packed, 7);
            ggml_tensor * b      = mul_packed(ctx.get(), up, packed, 7);
            ggml_tensor * y      = mul_packed_gated(ctx.get(), gate, up, packed, 7);
            ggml_cgraph * graph  = ggml_new_graph(ctx.get());
            for (ggml_tensor * t : {a, b, y}) {
                ggml_build_forward_expand(graph, t);
            }
            ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
            for (int64_t i = 0; i < 7 * M; i++) {
                const auto   v    = static_cast<double>(static_cast<float *>(a->data)[i]);
                const double want = v / (1.0 + std::exp(-v)) * static_cast<double>(static_cast<float *>(b->data)[i]);
                CHECK(std::abs(static_cast<double>(static_cast<float *>(y->data)[i]) - want) <=
                      1e-6 * std::abs(want) + 1e-30);
            }
        }
    }
}

TEST_CASE("what is not a number stays visible in a packed product") {
    if (!can_mul_packed(GGML_TYPE_Q4_0, 64)) {
        MESSAGE("skipped: no kernels for this processor");
        return;
    }
    for (const float bad : {NAN, INFINITY}) {
        ggml_context_ptr ctx{ggml_init({1u << 20, nullptr, false})};
        ggml_tensor *    w = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_Q4_0, 64, 8);
        ggml_tensor *    x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, 64, 2);
        ggml_quantize_chunk(GGML_TYPE_Q4_0, random_values(64 * 8, 3).data(), w->data, 0, 8, 64, nullptr);
        ggml_set_f32(x, 1.0f);
        static_cast<float *>(x->data)[64 + 40] = bad;
        ggml_tensor * y                        = mul_packed(ctx.get(), w, pack_rows(ctx.get(), x), 2);
        ggml_cgraph * graph                    = ggml_new_graph(ctx.get());
        ggml_build_forward_expand(graph, y);
        ggml_graph_compute_with_ctx(ctx.get(), graph, 1);
        const auto * out = static_cast<const float *>(y->data);
        CHECK(std::all_of(out, out + 8, [](float v) { return std::isfinite(v); }));
        CHECK(std::none_of(out + 8, out + 16, [](float v) { return std::isfinite(v); }));
    }
}

TEST_CASE("every instruction set computes the same, to the bit") {
    if (kernel_tables().size() < 2) {
        MESSAGE("skipped: this processor has one set of kernels or none");
        return;
    }
    const std::pair<ggml_type, WeightKernel KernelTable::*> kernels[] = {
        {GGML_TYPE_Q4_0, &KernelTable::q4_0},     {GGML_TYPE_Q4_1, &KernelTable::q4_1},
        {GGML_TYPE_Q5_0, &KernelTable::q5_0},     {GGML_TYPE_Q5_1, &KernelTable::q5_1},
        {GGML_TYPE_Q8_0, &KernelTable::q8_0},     {GGML_TYPE_Q2_K, &KernelTable::q2_k},
        {GGML_TYPE_Q3_K, &KernelTable::q3_k},     {GGML_TYPE_Q4_K, &KernelTable::q4_k},
        {GGML_TYPE_Q5_K, &KernelTable::q5_k},     {GGML_TYPE_Q6_K, &KernelTable::q6_k},
        {GGML_TYPE_IQ4_NL, &KernelTable::iq4_nl}, {GGML_TYPE_IQ4_XS, &KernelTable::iq4_xs},
        {GGML_TYPE_MXFP4, &KernelTable::mxfp4}};
    constexpr int64_t K = 256, n_blocks = K / kernel_block;
    for (const auto & [type, member] : kernels) {
        CAPTURE(ggml_type_name(type));
        const size_t         row_size = ggml_row_size(type, K);
        std::vector<uint8_t> weights(2 * kernel_rows * row_size);
        ggml_quantize_chunk(type, random_values(K * 2 * kernel_rows, 9).data(), weights.data(), 0, 2 * kernel_rows, K,
                            nullptr);
        const std::vector<float> x    = random_values(K * kernel_quad, 10);
        const auto               span = [&](size_t i) {
            return WeightSpan{
                weights.data() + i * kernel_rows * row_size, row_size, kernel_rows, 0, n_blocks, nullptr, 0};
        };
        const auto run = [&](const KernelTable & table) {
            const WeightKernel &     kernel = table.*member;
            std::vector<PackedBlock> packed(n_blocks);
            const float *            rows[] = {x.data(), x.data() + K, x.data() + 2 * K, x.data() + 3 * K};
            table.pack(rows, kernel_quad, n_blocks, packed.data());
            std::vector<WeightTile> tiles(2);
            std::vector<float>      y(kernel_quad * kernel_rows * 3 + kernel_rows);
            for (size_t i = 0; i < 2; i++) {
                kernel.unpack(span(i), tiles[i]);
            }
            kernel.multiply_two(tiles[0], tiles[1], packed.data(), n_blocks, true, y.data(), y.data() + kernel_rows,
                                3 * kernel_rows, kernel_quad);
            kernel.multiply(tiles[1], packed.data(), n_blocks, true, y.data() + 2 * kernel_rows, 3 * kernel_rows,
                            kernel_quad);
            kernel.multiply_one(span(1), packed.data(), y.data() + kernel_quad * kernel_rows * 3);
            return y;
        };
        const std::vector<float> y = run(*kernel_table());
        for (const KernelTable * other : kernel_tables()) {
            CHECK(y == run(*other));
        }
        const auto first_row = y.begin() + kernel_rows; // with the second tile, whoever multiplies
        CHECK(std::equal(first_row, first_row + kernel_rows, first_row + kernel_rows));
        CHECK(std::equal(first_row, first_row + kernel_rows, y.end() - kernel_rows));
    }
}
