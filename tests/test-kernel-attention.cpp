#include "kernel/attention.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

// Our attention against its definition in double precision.

using namespace buoy;

namespace {

struct Setting {
    int64_t   D, Tq, K, H, Hkv, S;
    ggml_type type_k, type_v;
    bool      masked;
};

struct Attention {
    std::vector<float> k, v;  // [S, Hkv, K, D], as their types keep them
    std::vector<float> q;     // [S, H, Tq, D]
    std::vector<float> mask;  // [Tq, K]
    std::vector<float> mixed; // [S, Tq, H, D], as the kernel computes it
};

std::vector<float> random_values(int64_t n, uint32_t seed) {
    std::mt19937                    random(seed);
    std::normal_distribution<float> normal;
    std::vector<float>              values(static_cast<size_t>(n));
    std::generate(values.begin(), values.end(), [&] { return 2.0f * normal(random); });
    return values;
}

// A tensor of that type, and what it then holds.
ggml_tensor * as_type(ggml_context * ctx, ggml_type type, const Setting & s, std::vector<float> & values) {
    ggml_tensor * t = ggml_new_tensor_4d(ctx, type, s.D, s.K, s.Hkv, s.S);
    if (type == GGML_TYPE_F32) {
        std::copy(values.begin(), values.end(), static_cast<float *>(t->data));
        return t;
    }
    ggml_quantize_chunk(type, values.data(), t->data, 0, s.K * s.Hkv * s.S, s.D, nullptr);
    ggml_get_type_traits(type)->to_float(t->data, values.data(), static_cast<int64_t>(values.size()));
    return t;
}

// Every third key is hidden, the later of the first half of the queries see only their own part, and one sees a single key.
std::vector<float> make_mask(const Setting & s) {
    std::vector<float> mask(static_cast<size_t>(s.Tq * s.K), 0.0f);
    for (int64_t t = 0; t < s.Tq; t++) {
        for (int64_t j = 0; j < s.K; j++) {
            const bool hidden = t == s.Tq / 2 ? j != s.K / 2 : j % 3 == 2 || (t % 2 == 1 && j > t + 1);
            mask[static_cast<size_t>(t * s.K + j)] = hidden ? -INFINITY : 0.0f;
        }
    }
    return mask;
}

Attention run(const Setting & s, int n_threads) {
    Attention        a = {random_values(s.D * s.K * s.Hkv * s.S, 1),
                          random_values(s.D * s.K * s.Hkv * s.S, 2),
                          random_values(s.D * s.Tq * s.H * s.S, 3),
                          {},
                          {}};
    ggml_context_ptr ctx{ggml_init({(a.k.size() + a.q.size()) * 16 + (8u << 20), nullptr, false})};
    ggml_tensor *    k    = as_type(ctx.get(), s.type_k, s, a.k);
    ggml_tensor *    v    = as_type(ctx.get(), s.type_v, s, a.v);
    ggml_tensor *    q    = ggml_new_tensor_4d(ctx.get(), GGML_TYPE_F32, s.D, s.Tq, s.H, s.S);
    ggml_tensor *    mask = s.masked ? ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F16, s.K, s.Tq) : nullptr;
    std::copy(a.q.begin(), a.q.end(), static_cast<float *>(q->data));
    if (s.masked) {
        a.mask = make_mask(s);
        ggml_fp32_to_fp16_row(a.mask.data(), static_cast<ggml_fp16_t *>(mask->data), s.K * s.Tq);
    }
    ggml_tensor * y     = attend(ctx.get(), q, k, v, mask, 1.0f / std::sqrt(static_cast<float>(s.D)));
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
    REQUIRE(y->ne[0] == s.D * s.H);
    REQUIRE(y->ne[1] == s.Tq * s.S);
    a.mixed.assign(static_cast<float *>(y->data), static_cast<float *>(y->data) + ggml_nelements(y));
    return a;
}

// Σ w_j·v_j for one query of one head.
std::vector<double> expected(const Setting & s, const Attention & a, int64_t stream, int64_t head, int64_t t) {
    const float * q  = a.q.data() + ((stream * s.H + head) * s.Tq + t) * s.D;
    const int64_t kv = (stream * s.Hkv + head / (s.H / s.Hkv)) * s.K * s.D;

    std::vector<double> scores(static_cast<size_t>(s.K)), mixed(static_cast<size_t>(s.D), 0.0);
    for (int64_t j = 0; j < s.K; j++) {
        double dot = 0.0;
        for (int64_t d = 0; d < s.D; d++) {
            dot += static_cast<double>(q[d]) * static_cast<double>(a.k[static_cast<size_t>(kv + j * s.D + d)]);
        }
        const double added             = s.masked ? static_cast<double>(a.mask[static_cast<size_t>(t * s.K + j)]) : 0.0;
        scores[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(s.D)) + added;
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double       sum     = 0.0;
    for (double & score : scores) {
        score = std::exp(score - largest);
        sum += score;
    }
    for (int64_t j = 0; j < s.K; j++) {
        for (int64_t d = 0; d < s.D; d++) {
            mixed[static_cast<size_t>(d)] +=
                scores[static_cast<size_t>(j)] / sum * static_cast<double>(a.v[static_cast<size_t>(kv + j * s.D + d)]);
        }
    }
    return mixed;
}

double nmse(const Setting & s, const Attention & a) {
    double error = 0.0, power = 0.0;
    for (int64_t stream = 0; stream < s.S; stream++) {
        for (int64_t head = 0; head < s.H; head++) {
            for (int64_t t = 0; t < s.Tq; t++) {
                const std::vector<double> row = expected(s, a, stream, head, t);
                for (int64_t d = 0; d < s.D; d++) {
                    const double want = row[static_cast<size_t>(d)];
                    const double have = a.mixed[static_cast<size_t>(((stream * s.Tq + t) * s.H + head) * s.D + d)];
                    error += (have - want) * (have - want);
                    power += want * want;
                }
            }
        }
    }
    return error / power;
}

const Setting settings[] = {{64, 32, 200, 4, 4, 1, GGML_TYPE_F16, GGML_TYPE_F16, false},
                            {64, 1, 1, 2, 1, 1, GGML_TYPE_F32, GGML_TYPE_F32, false},
                            {128, 7, 65, 4, 2, 2, GGML_TYPE_F32, GGML_TYPE_F32, true},
                            {8, 70, 300, 2, 2, 1, GGML_TYPE_F16, GGML_TYPE_F32, true},
                            {96, 33, 130, 6, 2, 1, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, true},
                            {256, 20, 40, 2, 1, 1, GGML_TYPE_F16, GGML_TYPE_Q8_0, false},
                            {24, 5, 17, 8, 1, 3, GGML_TYPE_F32, GGML_TYPE_F16, true},
                            {64, 150, 150, 2, 2, 1, GGML_TYPE_F32, GGML_TYPE_F32, true}};

} // namespace

TEST_CASE("attention is softmax attention, for any shape, type and mask") {
    for (const Setting & s : settings) {
        if (!can_attend(s.type_k, s.type_v, s.D)) {
            MESSAGE("skipped: no kernels for this processor");
            return;
        }
        CAPTURE(s.D);
        CAPTURE(s.Tq);
        CAPTURE(s.K);
        CHECK(nmse(s, run(s, 1)) < 1e-11); // float arithmetic
    }
}

TEST_CASE("attention doesn't depend on the number of threads") {
    for (const Setting & s : settings) {
        if (can_attend(s.type_k, s.type_v, s.D)) {
            const std::vector<float> one = run(s, 1).mixed;
            CHECK(run(s, 2).mixed == one);
            CHECK(run(s, 7).mixed == one);
        }
    }
}
