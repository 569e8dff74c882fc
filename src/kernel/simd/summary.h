#pragma once

#include "kernel/kernels.h"
#include "kernel/simd/floats.h"

#include <cmath>
#include <cstring>

namespace buoy {

namespace {

struct TopTwo {
    float   first = -INFINITY, second = -INFINITY;
    int32_t first_id = -1, second_id = -1;

    void add(float value, int32_t id) {
        const auto above = [](float a, int32_t i, float b, int32_t j) { return j < 0 || a > b || (a == b && i < j); };
        if (above(value, id, first, first_id)) {
            second    = first;
            second_id = first_id;
            first     = value;
            first_id  = id;
        } else if (above(value, id, second, second_id)) {
            second    = value;
            second_id = id;
        }
    }
};

// What can't be above the second best is passed over a vector at a time.
inline TopTwo find_top_two(const float * x, int64_t n) {
    TopTwo  top;
    int64_t i = 0;
    for (; i < n && i < lanes; i++) {
        top.add(x[i], static_cast<int32_t>(i));
    }
    for (; i < n; i += lanes) {
        if (i + lanes > n || any_above(load_floats(x + i), broadcast(top.second))) {
            for (int64_t j = i; j < i + lanes && j < n; j++) {
                top.add(x[j], static_cast<int32_t>(j));
            }
        }
    }
    return top;
}

// Σ e and Σ e·b with b = x − largest, e = exp(b); floats for a stretch, doubles for all.
inline void sum_exponentials(const float * x, int64_t n, float largest, double & sum, double & weighted) {
    constexpr int64_t stretch = 1024;
    for (int64_t from = 0; from < n; from += stretch) {
        const int64_t to   = from + stretch < n ? from + stretch : n;
        Floats        sums = zeros(), products = zeros();
        for (int64_t i = from; i < to; i += lanes) {
            alignas(64) float tail[lanes];
            const float *     at = x + i;
            if (i + lanes > to) {
                for (int64_t j = 0; j < lanes; j++) {
                    tail[j] = i + j < to ? x[i + j] : -INFINITY;
                }
                at = tail;
            }
            const Floats below = load_floats(at) - broadcast(largest);
            const Floats e     = exponential(below);
            sums               = sums + e;
            // e is 0 long before b is -inf, and their product NaN there
            products = multiply_add(e, max(broadcast(-200.0f), below), products);
        }
        sum += static_cast<double>(lane_sum(sums));
        weighted += static_cast<double>(lane_sum(products));
    }
}

void exponentials(const float * x, float * to, int64_t n, float factor, float offset) {
    const auto apply = [&](Floats v) { return exponential((v - broadcast(offset)) * broadcast(factor)); };
    int64_t    i     = 0;
    for (; i + lanes <= n; i += lanes) {
        store_floats(to + i, apply(load_floats(x + i)));
    }
    if (i < n) {
        store_floats(to + i, apply(load_floats(x + i, n - i)), n - i);
    }
}

template <typename Apply> inline void apply_gate(float * a, const float * b, int64_t n, const Apply & apply) {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        store_floats(a + i, apply(load_floats(a + i), load_floats(b + i)));
    }
    if (i < n) {
        store_floats(a + i, apply(load_floats(a + i, n - i), load_floats(b + i, n - i)), n - i);
    }
}

void gate(float * a, const float * b, int64_t n) {
    apply_gate(a, b, n, [](Floats x, Floats y) { return x / (broadcast(1.0f) + exponential(zeros() - x)) * y; });
}

// x / 2 · (1 + tanh(u)) = x / (1 + exp(−2u)), u = √(2/π)(x + 0.044715 x³)
void gate_gelu(float * a, const float * b, int64_t n) {
    constexpr float s = -2.0f * 0.79788456080286535588f, t = 0.044715f * s;
    apply_gate(a, b, n, [](Floats x, Floats y) {
        const Floats u = x * multiply_add(x * x, broadcast(t), broadcast(s));
        return x / (broadcast(1.0f) + exponential(u)) * y;
    });
}

LogitSummary summarize(const float * logits, int64_t n) {
    const TopTwo top = find_top_two(logits, n);
    double       sum = 0.0, weighted = 0.0;
    sum_exponentials(logits, n, top.first, sum, weighted);

    LogitSummary out;
    out.id          = top.first_id;
    out.second_id   = n > 1 ? top.second_id : top.first_id;
    out.prob        = static_cast<float>(1.0 / sum);
    out.prob_second = n > 1 ? first_lane(exponential(broadcast(top.second - top.first))) * out.prob : 0.0f;
    // H = ln Z − Σ p·(logit − largest), with Z relative to the largest
    const auto entropy = static_cast<float>(std::log(sum) - weighted / sum);
    out.entropy        = entropy < 0.0f ? 0.0f : entropy;
    return out;
}

} // namespace

} // namespace buoy
