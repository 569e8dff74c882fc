#pragma once

#include "kernel/simd/set.h"

namespace buoy {

namespace {

// e^r·2^n, |r| ≤ ln 2 / 2: the polynomial of degree 6 that is nearest to e^r there, of those that begin with 1 + r (3·10^-9).
inline Floats exponential_of(Floats r, Floats n) {
    constexpr float series[] = {0.00836874545f, 0.0416683890f, 0.166665211f, 0.499999940f, 1.0f, 1.0f};
    Floats          y        = broadcast(0.00138145406f);
    for (const float c : series) {
        y = multiply_add(y, r, broadcast(c));
    }
    return times_power_of_two(y, n);
}

// e^x within a unit in the last place; 0 below the smallest normal number, NaN stays.
inline Floats exponential(Floats x) {
    const Floats least = broadcast(-87.0f);
    const Floats kept  = min(broadcast(88.0f), max(least, x));
    const Floats n     = round_to_nearest(kept * broadcast(1.44269504f));
    Floats       r     = negated_multiply_add(n, broadcast(0.693359375f), kept); // ln 2 in two parts
    r                  = negated_multiply_add(n, broadcast(-2.12194440e-4f), r);
    return zero_below(exponential_of(r, n), x, least);
}

// 2^x for x ≤ 0; as above.
inline Floats power_of_two(Floats x) {
    const Floats n = round_to_nearest(x);
    return zero_below(exponential_of((x - n) * broadcast(0.693147181f), n), x, broadcast(-126.0f));
}

} // namespace

} // namespace buoy
