#include "kernel/experts.h"

#include "kernel/matmul.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

// Experts against the dense kernels, which have tests of their own, to the bit; and against the definition, in double precision.

using namespace buoy;

namespace {

struct Mixture {
    ggml_type gate_up, down;
    int64_t   E, F, X, U, n;
    int       n_threads = 2;
};

std::vector<float> random_values(int64_t n, uint32_t seed) {
    std::mt19937                    random(seed);
    std::normal_distribution<float> normal;
    std::vector<float>              values(static_cast<size_t>(n));
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
}

// Random weights of a type. They take longer to make than anything else here, so each is made once.
const std::vector<uint8_t> & random_weights(ggml_type type, int64_t n_cols, int64_t n_rows, uint32_t seed) {
    static std::map<std::tuple<ggml_type, int64_t, int64_t, uint32_t>, std::vector<uint8_t>> made;
    std::vector<uint8_t> & weights = made[{type, n_cols, n_rows, seed}];
    if (weights.empty()) {
        weights.resize(ggml_row_size(type, n_cols) * static_cast<size_t>(n_rows));
        ggml_quantize_chunk(type, random_values(n_cols * n_rows, seed).data(), weights.data(), 0, n_rows, n_cols,
                            nullptr);
    }
    return weights;
}

class Computation {
public:
    explicit Computation(const Mixture & m) : m_(m), ctx_(ggml_init({96u << 20, nullptr, false})) {
        gate    = stack(m.gate_up, m.E, m.F, 1);
        up      = stack(m.gate_up, m.E, m.F, 2);
        down    = stack(m.down, m.F, m.E, 3);
        x       = floats(m.E, m.n, 4);
        weights = floats(m.U, m.n, 5);
        chosen  = ggml_new_tensor_2d(ctx(), GGML_TYPE_I32, m.U, m.n);
        std::mt19937 random(6);
        for (int64_t row = 0; row < m.n; row++) { // different ones for each row; expert 1 is never chosen
            std::set<int32_t> ids;
            while (static_cast<int64_t>(ids.size()) < m.U) {
                const auto id = static_cast<int32_t>(random() % static_cast<uint32_t>(m.X));
                if (id != 1) {
                    ids.insert(id);
                }
            }
            std::copy(ids.rbegin(), ids.rend(), static_cast<int32_t *>(chosen->data) + row * m.U);
        }
    }

    ggml_context * ctx() const { return ctx_.get(); }

    std::vector<float> compute(ggml_tensor * y, int n_threads) const {
        ggml_cgraph * graph = ggml_new_graph_custom(ctx(), 4096, false);
        ggml_build_forward_expand(graph, y);
        ggml_graph_compute_with_ctx(ctx(), graph, n_threads);
        const auto * data = static_cast<const float *>(y->data);
        return {data, data + ggml_nelements(y)};
    }

    ggml_tensor * matrix(ggml_tensor * all, int64_t i) const {
        return ggml_view_2d(ctx(), all, all->ne[0], all->ne[1], all->nb[1], all->nb[2] * static_cast<size_t>(i));
    }

    int32_t id(int64_t row, int64_t u) const { return static_cast<const int32_t *>(chosen->data)[row * m_.U + u]; }
    float   weight(int64_t row, int64_t u) const { return static_cast<const float *>(weights->data)[row * m_.U + u]; }

    ggml_tensor *gate, *up, *down, *x, *weights, *chosen;

private:
    ggml_tensor * stack(ggml_type type, int64_t K, int64_t M, uint32_t seed) const {
        ggml_tensor *                w     = ggml_new_tensor_3d(ctx(), type, K, M, m_.X);
        const std::vector<uint8_t> & bytes = random_weights(type, K, M * m_.X, seed);
        std::memcpy(w->data, bytes.data(), bytes.size());
        return w;
    }

    ggml_tensor * floats(int64_t K, int64_t n, uint32_t seed) const {
        ggml_tensor *            t      = ggml_new_tensor_2d(ctx(), GGML_TYPE_F32, K, n);
        const std::vector<float> values = random_values(K * n, seed);
        std::copy(values.begin(), values.end(), static_cast<float *>(t->data));
        return t;
    }

    Mixture          m_;
    ggml_context_ptr ctx_;
};

std::vector<float> run_experts(const Computation & c, const Mixture & m) {
    ggml_tensor * route = route_rows(c.ctx(), c.chosen, m.X);
    ggml_tensor * f     = mul_routed_gated(c.ctx(), c.gate, c.up, pack_routed(c.ctx(), c.x, route), route);
    ggml_tensor * y     = mul_routed(c.ctx(), c.down, pack_places(c.ctx(), f, route), route);
    return c.compute(sum_routed(c.ctx(), y, c.weights, route), m.n_threads);
}

// Row by row and expert by expert with the dense kernels.
std::vector<float> run_dense(const Computation & c, const Mixture & m) {
    std::vector<float> out;
    for (int64_t row = 0; row < m.n; row++) {
        std::vector<float> sum(static_cast<size_t>(m.E));
        ggml_tensor *      x = ggml_view_2d(c.ctx(), c.x, m.E, 1, c.x->nb[1], c.x->nb[1] * static_cast<size_t>(row));
        for (int64_t u = 0; u < m.U; u++) {
            const int32_t id = c.id(row, u);
            ggml_tensor * f =
                mul_packed_gated(c.ctx(), c.matrix(c.gate, id), c.matrix(c.up, id), pack_rows(c.ctx(), x), 1);
            const auto y = c.compute(mul_packed(c.ctx(), c.matrix(c.down, id), pack_rows(c.ctx(), f), 1), 1);
            for (size_t i = 0; i < sum.size(); i++) {
                sum[i] += c.weight(row, u) * y[i];
            }
        }
        out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
}

std::vector<double> row_of(const ggml_tensor * w, int64_t expert, int64_t row) {
    std::vector<float> values(static_cast<size_t>(w->ne[0]));
    ggml_get_type_traits(w->type)->to_float(static_cast<const char *>(w->data) +
                                                w->nb[2] * static_cast<size_t>(expert) +
                                                w->nb[1] * static_cast<size_t>(row),
                                            values.data(), w->ne[0]);
    return {values.begin(), values.end()};
}

std::vector<double> product(const ggml_tensor * w, int64_t expert, const std::vector<double> & x) {
    std::vector<double> y;
    for (int64_t row = 0; row < w->ne[1]; row++) {
        const std::vector<double> weights = row_of(w, expert, row);
        double                    sum     = 0;
        for (size_t k = 0; k < x.size(); k++) {
            sum += weights[k] * x[k];
        }
        y.push_back(sum);
    }
    return y;
}

double noise(const Computation & c, const Mixture & m, const std::vector<float> & found) {
    double error = 0, power = 0;
    for (int64_t row = 0; row < m.n; row++) {
        const float *             data = static_cast<const float *>(c.x->data) + row * m.E;
        const std::vector<double> x(data, data + m.E);
        std::vector<double>       sum(static_cast<size_t>(m.E));
        for (int64_t u = 0; u < m.U; u++) {
            const int32_t             id = c.id(row, u);
            std::vector<double>       f  = product(c.gate, id, x);
            const std::vector<double> g  = product(c.up, id, x);
            for (size_t i = 0; i < f.size(); i++) {
                f[i] = f[i] / (1 + std::exp(-f[i])) * g[i];
            }
            const std::vector<double> y = product(c.down, id, f);
            for (size_t i = 0; i < y.size(); i++) {
                sum[i] += static_cast<double>(c.weight(row, u)) * y[i];
            }
        }
        for (int64_t i = 0; i < m.E; i++) {
            const double d =
                static_cast<double>(found[static_cast<size_t>(row * m.E + i)]) - sum[static_cast<size_t>(i)];
            error += d * d;
            power += sum[static_cast<size_t>(i)] * sum[static_cast<size_t>(i)];
        }
    }
    return error / power;
}

bool has_kernels() {
    if (!can_mul_packed(GGML_TYPE_Q4_0, 32)) {
        MESSAGE("skipped: no kernels for this processor");
        return false;
    }
    return true;
}

} // namespace

TEST_CASE("experts compute what the dense kernels compute for each row alone, to the bit") {
    if (!has_kernels()) {
        return;
    }
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
        for (const int64_t n : {1, 2, 9, 40}) {
            for (const int64_t U : {1, 3}) {
                CAPTURE(ggml_type_name(type));
                CAPTURE(n);
                CAPTURE(U);
                const Mixture     m = {type, GGML_TYPE_Q6_K, 256, 256, 5, U, n};
                const Computation c(m);
                CHECK(run_experts(c, m) == run_dense(c, m));
            }
        }
    }
}

TEST_CASE("experts differ from the definition by the rounding of activations to 8 bits") {
    if (!has_kernels()) {
        return;
    }
    // neither F nor E a multiple of 16; more experts than rows
    for (const Mixture & m : {Mixture{GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, 96, 160, 24, 4, 11},
                              Mixture{GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, 64, 32, 40, 2, 3}}) {
        const Computation c(m);
        CHECK(noise(c, m, run_experts(c, m)) < 3e-4);
    }
}

TEST_CASE("experts don't depend on the number of threads") {
    if (!has_kernels()) {
        return;
    }
    Mixture    m   = {GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, 64, 96, 7, 2, 13, 1};
    const auto one = run_experts(Computation(m), m);
    for (const int n_threads : {2, 3, 8}) {
        m.n_threads = n_threads;
        CHECK(run_experts(Computation(m), m) == one);
    }
}
