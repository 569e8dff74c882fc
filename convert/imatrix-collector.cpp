#include "imatrix-collector.h"

#include "buoy/message.h"

#include <algorithm>
#include <cmath>

namespace buoy {

void ImatrixCollector::add(const ProductEvent & event) {
    const auto    n_each = static_cast<size_t>(std::max<int64_t>(event.n_expert, 1));
    const auto    n_cols = static_cast<size_t>(event.n_cols);
    ImatrixSums & entry  = sums_[event.weight];
    entry.squares.resize(n_cols * n_each);
    entry.counts.resize(n_each);
    for (size_t row = 0; row < static_cast<size_t>(event.n_rows); row++) {
        const size_t  expert = event.n_expert > 0 ? static_cast<size_t>(event.experts[row]) : 0;
        const float * x      = event.x + row * n_cols;
        float *       sums   = entry.squares.data() + expert * n_cols;
        for (size_t i = 0; i < n_cols; i++) {
            sums[i] += x[i] * x[i];
        }
        entry.counts[expert] += 1;
    }
}

void ImatrixCollector::check(const std::string & model_path) const {
    for (const auto & [name, entry] : sums_) {
        if (!std::all_of(entry.squares.begin(), entry.squares.end(), [](float sum) { return std::isfinite(sum); })) {
            fail_runtime(printable(model_path), ": the activations that reach ", in_quotes(name),
                         " are NaN or infinite");
        }
    }
}

} // namespace buoy
