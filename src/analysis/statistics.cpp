#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace buoy::analysis {

namespace {

constexpr double nan         = std::numeric_limits<double>::quiet_NaN();
constexpr size_t n_resamples = 2000;

std::vector<double> finite(const std::vector<double> & values) {
    std::vector<double> out;
    std::copy_if(values.begin(), values.end(), std::back_inserter(out), [](double v) { return std::isfinite(v); });
    return out;
}

// The percentiles of a statistic over resamples of n things; it gets their indices.
template <typename Statistic>
std::pair<double, double> bootstrap(size_t n, uint32_t seed, const Statistic & statistic) {
    if (n < 2) {
        return {nan, nan};
    }
    std::mt19937        random(seed);
    std::vector<size_t> chosen(n);
    std::vector<double> values;
    for (size_t i = 0; i < n_resamples; i++) {
        for (size_t & index : chosen) {
            index = static_cast<size_t>((static_cast<uint64_t>(random()) * n) >> 32);
        }
        values.push_back(statistic(chosen));
    }
    const auto n_undefined = std::count_if(values.begin(), values.end(), [](double v) { return std::isnan(v); });
    if (static_cast<size_t>(n_undefined) > n_resamples / 20) { // those that are left are a choice
        return {nan, nan};
    }
    return {quantile(values, 0.025), quantile(values, 0.975)};
}

// Of the pairs at these indices.
double correlation_at(const std::vector<double> & a, const std::vector<double> & b, const std::vector<size_t> & at) {
    const auto n      = static_cast<double>(at.size());
    double     mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
    for (const size_t i : at) {
        mean_a += a[i] / n;
        mean_b += b[i] / n;
    }
    for (const size_t i : at) {
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
        ab += (a[i] - mean_a) * (b[i] - mean_b);
    }
    // what is left of a constant after its mean was taken is rounding
    const double least = 1e-24 * n;
    return aa > least && bb > least ? ab / std::sqrt(aa * bb) : nan;
}

// Both columns of the pairs that are finite.
std::pair<std::vector<double>, std::vector<double>> finite_pairs(const std::vector<double> & a,
                                                                 const std::vector<double> & b) {
    std::pair<std::vector<double>, std::vector<double>> out;
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
        if (std::isfinite(a[i]) && std::isfinite(b[i])) {
            out.first.push_back(a[i]);
            out.second.push_back(b[i]);
        }
    }
    return out;
}

} // namespace

void Mean::add(double value) {
    if (std::isfinite(value)) {
        sum += value;
        n++;
    }
}

double Mean::value() const { return n > 0 ? sum / static_cast<double>(n) : nan; }

double mean_of(const std::vector<double> & values) {
    Mean mean;
    for (double value : values) {
        mean.add(value);
    }
    return mean.value();
}

Spread spread_of(const std::vector<double> & values) {
    const std::vector<double> used = finite(values);
    Spread                    out{mean_of(used), 0, used.size()};
    for (double value : used) {
        out.deviation += (value - out.mean) * (value - out.mean);
    }
    out.deviation = used.size() > 1 ? std::sqrt(out.deviation / static_cast<double>(used.size() - 1)) : 0;
    return out;
}

double quantile(std::vector<double> values, double fraction) {
    values = finite(values);
    if (values.empty()) {
        return nan;
    }
    std::sort(values.begin(), values.end());
    const double at    = fraction * static_cast<double>(values.size() - 1);
    const auto   below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

std::pair<double, double> bootstrap_mean(const std::vector<double> & values, uint32_t seed) {
    const std::vector<double> used = finite(values);
    return bootstrap(used.size(), seed, [&](const std::vector<size_t> & chosen) {
        Mean mean;
        for (const size_t i : chosen) {
            mean.add(used[i]);
        }
        return mean.value();
    });
}

double correlation(const std::vector<double> & a, const std::vector<double> & b) {
    const auto          pairs = finite_pairs(a, b);
    std::vector<size_t> all(pairs.first.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return correlation_at(pairs.first, pairs.second, all);
}

std::pair<double, double> bootstrap_correlation(const std::vector<double> & a, const std::vector<double> & b,
                                                uint32_t seed) {
    const auto pairs = finite_pairs(a, b);
    return bootstrap(pairs.first.size(), seed, [&](const std::vector<size_t> & chosen) {
        return correlation_at(pairs.first, pairs.second, chosen);
    });
}

} // namespace buoy::analysis
