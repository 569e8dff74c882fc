#include "kernel/attention.h"
#include "kernel/kernels.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <cmath>
#include <functional>
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

// Every third key is hidden, every fifth wanted less, odd queries see nothing behind themselves, and one sees a single key.
std::vector<float> make_mask(const Setting & s) {
    std::vector<float> mask(static_cast<size_t>(s.Tq * s.K), 0.0f);
    for (int64_t t = 0; t < s.Tq; t++) {
        for (int64_t j = 0; j < s.K; j++) {
            const bool hidden = t == s.Tq / 2 ? j != s.K / 2 : j % 3 == 2 || (t % 2 == 1 && j > t + 1);
            mask[static_cast<size_t>(t * s.K + j)] = hidden ? -INFINITY : j % 5 == 4 ? -0.75f : 0.0f;
        }
    }
    return mask;
}

using MakeResult = std::function<ggml_tensor *(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                                               ggml_tensor * mask)>;

// What came out, and what went in.
Attention compute(const Setting & s, int n_threads, const MakeResult & make) {
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
    ggml_tensor * y     = make(ctx.get(), q, k, v, mask);
    ggml_cgraph * graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, y);
    ggml_graph_compute_with_ctx(ctx.get(), graph, n_threads);
    a.mixed.assign(static_cast<float *>(y->data), static_cast<float *>(y->data) + ggml_nelements(y));
    return a;
}

float scale_of(const Setting & s) { return 1.0f / std::sqrt(static_cast<float>(s.D)); }

Attention run(const Setting & s, int n_threads) {
    const auto make = [&](ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * mask) {
        ggml_tensor * y = attend(ctx, q, k, v, mask, scale_of(s));
        REQUIRE(y->ne[0] == s.D * s.H);
        REQUIRE(y->ne[1] == s.Tq * s.S);
        return y;
    };
    return compute(s, n_threads, make);
}

// w_j for one query of one head.
std::vector<double> weights(const Setting & s, const Attention & a, int64_t stream, int64_t head, int64_t t) {
    const float * q  = a.q.data() + ((stream * s.H + head) * s.Tq + t) * s.D;
    const int64_t kv = (stream * s.Hkv + head / (s.H / s.Hkv)) * s.K * s.D;

    std::vector<double> scores(static_cast<size_t>(s.K));
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
    for (double & score : scores) {
        score /= sum;
    }
    return scores;
}

// Σ w_j·v_j
std::vector<double> expected(const Setting & s, const Attention & a, int64_t stream, int64_t head, int64_t t) {
    const int64_t             kv = (stream * s.Hkv + head / (s.H / s.Hkv)) * s.K * s.D;
    const std::vector<double> w  = weights(s, a, stream, head, t);
    std::vector<double>       mixed(static_cast<size_t>(s.D), 0.0);
    for (int64_t j = 0; j < s.K; j++) {
        for (int64_t d = 0; d < s.D; d++) {
            mixed[static_cast<size_t>(d)] +=
                w[static_cast<size_t>(j)] * static_cast<double>(a.v[static_cast<size_t>(kv + j * s.D + d)]);
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

struct Chosen {
    std::vector<int64_t> heads, rows;
};

Attention run_weights(const Setting & s, int n_threads, const Chosen * some, PatternShape shape) {
    const auto make = [&](ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor *, ggml_tensor * mask) {
        ggml_tensor * chosen = nullptr;
        if (some != nullptr) {
            chosen    = ggml_new_tensor_3d(ctx, GGML_TYPE_I32, static_cast<int64_t>(some->rows.size()),
                                           static_cast<int64_t>(some->heads.size()), s.S);
            auto * to = static_cast<int32_t *>(chosen->data);
            for (int64_t stream = 0; stream < s.S; stream++) {
                for (int64_t head : some->heads) {
                    for (int64_t row : some->rows) {
                        *to++ = static_cast<int32_t>((stream * s.H + head) * s.Tq + row);
                    }
                }
            }
        }
        return attention_weights(ctx, q, k, mask, scale_of(s), chosen, shape);
    };
    return compute(s, n_threads, make);
}

// The largest difference to the mean of the definition's weights over what the shape has a mean of.
double worst(const Setting & s, const Attention & a, const Chosen & of, PatternShape shape) {
    const auto   n_heads = of.heads.size(), n_rows = of.rows.size(), K = static_cast<size_t>(s.K);
    const size_t out_heads = shape == PatternShape::heads ? 1 : n_heads;
    const size_t out_rows  = shape == PatternShape::received ? 1 : n_rows;

    std::vector<double> want(static_cast<size_t>(s.S) * out_heads * out_rows * K, 0.0);
    for (size_t stream = 0; stream < static_cast<size_t>(s.S); stream++) {
        for (size_t h = 0; h < n_heads; h++) {
            for (size_t r = 0; r < n_rows; r++) {
                const std::vector<double> w = weights(s, a, static_cast<int64_t>(stream), of.heads[h], of.rows[r]);
                const size_t              at =
                    ((stream * out_heads + (out_heads > 1 ? h : 0)) * out_rows + (out_rows > 1 ? r : 0)) * K;
                for (size_t j = 0; j < K; j++) {
                    want[at + j] +=
                        w[j] * static_cast<double>(out_heads * out_rows) / static_cast<double>(n_heads * n_rows);
                }
            }
        }
    }
    REQUIRE(a.mixed.size() == want.size());
    double most = 0.0;
    for (size_t i = 0; i < want.size(); i++) {
        most = std::max(most, std::abs(want[i] - static_cast<double>(a.mixed[i])));
    }
    return most;
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

TEST_CASE("the weights of an attention, whole and as means, of all or of some queries") {
    for (const Setting & s : settings) {
        if (!can_attend(s.type_k, s.type_v, s.D)) {
            continue;
        }
        Chosen all, some;
        for (int64_t head = 0; head < s.H; head++) {
            all.heads.push_back(head);
        }
        for (int64_t row = 0; row < s.Tq; row++) {
            all.rows.push_back(row);
        }
        some.heads = {s.H - 1};
        some.rows  = s.Tq > 2 ? std::vector<int64_t>{1, s.Tq - 1} : std::vector<int64_t>{0};
        for (PatternShape shape : {PatternShape::whole, PatternShape::heads, PatternShape::received}) {
            CAPTURE(s.D);
            CAPTURE(static_cast<int>(shape));
            const Attention one = run_weights(s, 1, nullptr, shape);
            CHECK(worst(s, one, all, shape) < 5e-6);
            CHECK(worst(s, run_weights(s, 1, &some, shape), some, shape) < 5e-6);
            CHECK(run_weights(s, 3, nullptr, shape).mixed == one.mixed);
        }
    }
}

namespace {

// Keys or values of one head as a type keeps them, with something else between one position and the next.
struct StoredRows {
    std::vector<uint8_t> bytes;
    std::vector<float>   values; // [K, D]
    KeyRows              rows;

    StoredRows(ggml_type type, int64_t D, int64_t K, uint32_t seed) : values(random_values(K * D, seed)) {
        const size_t size = ggml_row_size(type, D), stride = size + 48;
        bytes.assign(stride * static_cast<size_t>(K), 0xff);
        for (int64_t i = 0; i < K; i++) {
            uint8_t * row = bytes.data() + stride * static_cast<size_t>(i);
            float *   of  = values.data() + i * D;
            if (type == GGML_TYPE_F32) {
                std::copy(of, of + D, reinterpret_cast<float *>(row));
            } else {
                ggml_quantize_chunk(type, of, row, 0, 1, D, nullptr);
                ggml_get_type_traits(type)->to_float(row, of, D);
            }
        }
        rows = {bytes.data(), stride,
                type == GGML_TYPE_F32   ? KeyType::f32
                : type == GGML_TYPE_F16 ? KeyType::f16
                                        : KeyType::q8_0};
    }
};

// One head's attention, by every instruction set that this processor has.
void check_tables(int64_t D, int64_t n_rows, int64_t K, int64_t rows_together, ggml_type type_k, ggml_type type_v,
                  bool masked) {
    const Setting         s = {D, n_rows, K, 1, 1, 1, type_k, type_v, masked};
    const StoredRows      k(type_k, D, K, 1), v(type_v, D, K, 2);
    Attention             a = {k.values, v.values, random_values(D * n_rows, 3), {}, {}};
    std::vector<uint16_t> mask;
    if (masked) {
        a.mask = make_mask(s);
        mask.resize(a.mask.size());
        ggml_fp32_to_fp16_row(a.mask.data(), mask.data(), n_rows * K);
    }
    for (const KernelTable * table : kernel_tables()) {
        std::vector<float> weights(static_cast<size_t>(n_rows * K), 1.0f);
        a.mixed.assign(a.q.size(), 0.0f);
        AttentionWork work;
        work.n_rows        = n_rows;
        work.n_keys        = K;
        work.head_dim      = D;
        work.rows_together = rows_together;
        work.k             = k.rows;
        work.v             = v.rows;
        work.scale         = scale_of(s);
        for (int64_t r = 0; r < n_rows; r++) {
            work.q[r]    = a.q.data() + r * D;
            work.out[r]  = a.mixed.data() + r * D;
            work.mask[r] = masked ? mask.data() + r * K : nullptr;
        }
        std::vector<AttentionState> state(1);
        table->attend(&work, state.data(), 1);
        CHECK(nmse(s, a) < 1e-11); // float arithmetic

        for (int64_t r = 0; r < n_rows; r++) {
            work.out[r] = weights.data() + r * K;
        }
        std::vector<float> room(static_cast<size_t>((n_rows + 15) / 16 * 16 * ((K + 63) / 64 * 64)), NAN);
        table->weigh(work, 2.0f, state[0], room.data());
        double most = 0.0;
        for (int64_t r = 0; r < n_rows; r++) {
            const std::vector<double> want = ::weights(s, a, 0, 0, r);
            for (int64_t j = 0; j < K; j++) {
                const auto have = static_cast<double>(weights[static_cast<size_t>(r * K + j)]);
                most            = std::max(most, std::abs(1.0 + 2.0 * want[static_cast<size_t>(j)] - have));
            }
        }
        CHECK(most < 1e-5);
    }
}

} // namespace

TEST_CASE("every instruction set attends alike, whatever the number of rows, keys and columns") {
    if (kernel_tables().empty()) {
        MESSAGE("skipped: no kernels for this processor");
        return;
    }
    const ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0};
    std::mt19937    random(7);
    const auto      one_of = [&](int64_t first, int64_t last) {
        return first + static_cast<int64_t>(random()) % (last - first + 1);
    };
    for (const int64_t D : {8, 40, 64, 80, 128, 256}) {
        const int64_t fit     = std::min(attention_rows_max, attention_floats / ((D + 15) / 16 * 16));
        const int64_t n_types = D % 32 == 0 ? 3 : 2;
        for (int i = 0; i < 16; i++) {
            const int64_t   n_rows = i < 4 ? 1 << i : one_of(1, fit), K = i % 4 == 0 ? one_of(1, 70) : one_of(1, 300);
            const ggml_type type_k = types[one_of(0, n_types - 1)], type_v = types[one_of(0, n_types - 1)];
            int64_t         together = int64_t(1) << one_of(0, 4);
            while (together * 16 < n_rows) {
                together *= 2;
            }
            const bool masked = i % 3 == 1;
            CAPTURE(D);
            CAPTURE(n_rows);
            CAPTURE(K);
            CAPTURE(together);
            CAPTURE(masked);
            check_tables(D, n_rows, K, together, type_k, type_v, masked);
        }
    }
}
