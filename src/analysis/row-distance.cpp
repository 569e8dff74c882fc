#include "analysis/row-distance.h"

#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>

namespace buoy::analysis {

std::vector<std::pair<size_t, size_t>> common_rows(const std::vector<int32_t> & a, const std::vector<int32_t> & b) {
    std::vector<std::pair<size_t, size_t>> out;
    for (size_t i = 0; i < a.size(); i++) {
        const auto at = std::lower_bound(b.begin(), b.end(), a[i]);
        if (at != b.end() && *at == a[i]) {
            out.emplace_back(i, static_cast<size_t>(at - b.begin()));
        }
    }
    return out;
}

double row_distance(const Array & a, const std::vector<int32_t> & rows_a, const Array & b,
                    const std::vector<int32_t> & rows_b) {
    const size_t n = std::max(a.shape[1], b.shape[1]);
    Mean         mean;
    for (const auto & [i, other] : common_rows(rows_a, rows_b)) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) {
            const float of_a = j < a.shape[1] ? a.values[i * a.shape[1] + j] : 0.0f;
            const float of_b = j < b.shape[1] ? b.values[other * b.shape[1] + j] : 0.0f;
            sum += std::abs(static_cast<double>(of_a) - static_cast<double>(of_b)) / 2;
        }
        mean.add(sum);
    }
    return mean.value();
}

} // namespace buoy::analysis
