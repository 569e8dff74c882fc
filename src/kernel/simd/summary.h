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

// What can't be above the second best is passed over eight at a time.
inline TopTwo find_top_two(const float * x, int64_t n) {
    TopTwo  top;
    int64_t i = 0;
    for (; i < n && i < 8; i++) {
        top.add(x[i], static_cast<int32_t>(i));
    }
    for (; i + 8 <= n; i += 8) {
        const __m256 above = _mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(top.second), _CMP_GT_OQ);
        if (_mm256_movemask_ps(above) != 0) {
            for (int64_t j = i; j < i + 8; j++) {
                top.add(x[j], static_cast<int32_t>(j));
            }
        }
    }
    for (; i < n; i++) {
        top.add(x[i], static_cast<int32_t>(i));
    }
    return top;
}

// Σ e and Σ e·b with b = x − largest, e = exp(b); floats for a stretch, doubles for all.
inline void sum_exponentials(const float * x, int64_t n, float largest, double & sum, double & weighted) {
    constexpr int64_t stretch = 1024;
    for (int64_t from = 0; from < n; from += stretch) {
        const int64_t to   = from + stretch < n ? from + stretch : n;
        __m256        sums = _mm256_setzero_ps(), products = _mm256_setzero_ps();
        for (int64_t i = from; i < to; i += 8) {
            alignas(32) float tail[8];
            const float *     at = x + i;
            if (i + 8 > to) {
                for (int64_t j = 0; j < 8; j++) {
                    tail[j] = i + j < to ? x[i + j] : -INFINITY;
                }
                at = tail;
            }
            const __m256 below = _mm256_sub_ps(_mm256_loadu_ps(at), _mm256_set1_ps(largest));
            const __m256 e     = exp8(below);
            // e is 0 long before b is -inf, and their product NaN there
            const __m256 kept = _mm256_max_ps(_mm256_set1_ps(-200.0f), below);
            sums              = _mm256_add_ps(sums, e);
            products          = _mm256_fmadd_ps(e, kept, products);
        }
        sum += static_cast<double>(sum8(sums));
        weighted += static_cast<double>(sum8(products));
    }
}

void exponentials(const float * x, float * to, int64_t n, float factor, float offset) {
    for (int64_t i = 0; i < n; i += 8) {
        alignas(32) float some[8] = {};
        const bool        whole   = i + 8 <= n;
        if (!whole) {
            std::memcpy(some, x + i, sizeof(float) * static_cast<size_t>(n - i));
        }
        const __m256 above = _mm256_sub_ps(_mm256_loadu_ps(whole ? x + i : some), _mm256_set1_ps(offset));
        const __m256 e     = exp8(_mm256_mul_ps(above, _mm256_set1_ps(factor)));
        _mm256_storeu_ps(whole ? to + i : some, e);
        if (!whole) {
            std::memcpy(to + i, some, sizeof(float) * static_cast<size_t>(n - i));
        }
    }
}

void gate(float * a, const float * b, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 x    = _mm256_loadu_ps(a + i);
        const __m256 down = _mm256_add_ps(_mm256_set1_ps(1.0f), exp8(_mm256_sub_ps(_mm256_setzero_ps(), x)));
        _mm256_storeu_ps(a + i, _mm256_mul_ps(_mm256_div_ps(x, down), _mm256_loadu_ps(b + i)));
    }
}

LogitSummary summarize(const float * logits, int64_t n) {
    const TopTwo top = find_top_two(logits, n);
    double       sum = 0.0, weighted = 0.0;
    sum_exponentials(logits, n, top.first, sum, weighted);

    LogitSummary out;
    out.id          = top.first_id;
    out.second_id   = n > 1 ? top.second_id : top.first_id;
    out.prob        = static_cast<float>(1.0 / sum);
    out.prob_second = n > 1 ? _mm256_cvtss_f32(exp8(_mm256_set1_ps(top.second - top.first))) * out.prob : 0.0f;
    // H = ln Z − Σ p·(logit − largest), with Z relative to the largest
    const auto entropy = static_cast<float>(std::log(sum) - weighted / sum);
    out.entropy        = entropy < 0.0f ? 0.0f : entropy;
    return out;
}

} // namespace

} // namespace buoy
