#pragma once

#include <cstddef>
#include <vector>

namespace buoy::analysis {

// [n, n], row by row.
struct SquareMatrix {
    size_t              n = 0;
    std::vector<double> values;

    explicit SquareMatrix(size_t size = 0) : n(size), values(size * size) {}

    double & at(size_t row, size_t column) { return values[row * n + column]; }
    double   at(size_t row, size_t column) const { return values[row * n + column]; }
};

// Rows that sum to 1; those that sum to 0 stay.
void normalise_rows(SquareMatrix & matrix);

// A ← rownorm(rownorm(A) + I), R ← A · R from the first layer to the last, rows normalised at the end.
SquareMatrix rollout(const std::vector<SquareMatrix> & layers);

} // namespace buoy::analysis
