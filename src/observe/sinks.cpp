#include "observe/sinks.h"
#include "buoy/edit.h"

#include <cmath>

namespace buoy {

namespace {

std::vector<double> mean_over_heads(const float * received, size_t n_head, size_t n_keys) {
    std::vector<double> columns(n_keys, 0.0);
    for (size_t h = 0; h < n_head; h++) {
        for (size_t k = 0; k < n_keys; k++) {
            columns[k] += static_cast<double>(received[h * n_keys + k]) / static_cast<double>(n_head);
        }
    }
    return columns;
}

} // namespace

std::vector<size_t> columns_above(const std::vector<double> & columns, double epsilon) {
    const auto n    = static_cast<double>(columns.size());
    double     mean = 0.0, square = 0.0;
    for (double value : columns) {
        mean += value / n;
    }
    for (double value : columns) {
        square += (value - mean) * (value - mean) / n;
    }
    std::vector<size_t> found;
    for (size_t k = 0; k < columns.size(); k++) {
        if (columns[k] > mean + epsilon * std::sqrt(square)) {
            found.push_back(k);
        }
    }
    return found;
}

std::vector<size_t> find_sinks(const float * received, size_t n_head, size_t n_keys, float epsilon) {
    return columns_above(mean_over_heads(received, n_head, n_keys), static_cast<double>(epsilon));
}

} // namespace buoy
