#pragma once

#include "buoy/table.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Values that are not finite are left out everywhere; the mean of nothing is NaN.

namespace buoy::analysis {

Spread spread_of(const std::vector<double> & values);
double mean_of(const std::vector<double> & values);

// Linear between the two nearest values, as numpy's percentile; fraction 0 to 1.
double quantile(std::vector<double> values, double fraction);

// 95 % confidence interval of the mean, by the percentiles of the means of 2000 resamples. The random numbers are those of a
// Mersenne Twister (MT19937) with that seed: index = number · n / 2^32.
std::pair<double, double> bootstrap_mean(const std::vector<double> & values, uint32_t seed);

// Pearson's correlation of the pairs; with one of the two 0 or 1, the point-biserial one. NaN where one of them never changes.
double correlation(const std::vector<double> & a, const std::vector<double> & b);

// Its 95 % confidence interval, by the same resamples, of pairs; those without a correlation are left out.
std::pair<double, double> bootstrap_correlation(const std::vector<double> & a, const std::vector<double> & b,
                                                uint32_t seed);

// A mean that is added up.
struct Mean {
    double sum = 0;
    size_t n   = 0;

    void   add(double value);
    double value() const;
};

} // namespace buoy::analysis
