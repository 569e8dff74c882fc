#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
    if (used.size() < 2) {
        return {nan, nan};
    }
    std::mt19937        random(seed);
    std::vector<double> means;
    for (size_t i = 0; i < n_resamples; i++) {
        Mean mean;
        for (size_t j = 0; j < used.size(); j++) {
            mean.add(used[static_cast<size_t>((static_cast<uint64_t>(random()) * used.size()) >> 32)]);
        }
        means.push_back(mean.value());
    }
    return {quantile(means, 0.025), quantile(means, 0.975)};
}

} // namespace buoy::analysis
