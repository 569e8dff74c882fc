// Top-k, top-p and min-p.

#include "decode/token-choice.h"

#include <algorithm>

namespace buoy {

bool TokenChoice::has_filters() const { return params_.top_k > 0 || params_.top_p < 1.0f || params_.min_p > 0.0f; }

// Only as much of the vocabulary is sorted as is kept: a full sort would cost more than a small model's pass.
void TokenChoice::keep_likely(Tokens & tokens) const {
    if (!has_filters()) {
        return;
    }
    std::vector<int32_t> & ids       = tokens.ids; // each its own index, until the end
    const auto             logit_of  = [&](int32_t id) { return tokens.logits[static_cast<size_t>(id)]; };
    const auto             weight_of = [&](int32_t id) { return tokens.weights[static_cast<size_t>(id)]; };
    const auto             likelier  = [&](int32_t a, int32_t b) {
        return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
    };
    size_t     n_sorted      = 0;
    const auto ensure_sorted = [&](size_t n) {
        const auto begin = ids.begin() + static_cast<ptrdiff_t>(n_sorted);
        if (n > n_sorted) {
            std::partial_sort(begin, ids.begin() + static_cast<ptrdiff_t>(n), ids.end(), likelier);
            n_sorted = n;
        }
    };
    size_t n = params_.top_k > 0 ? std::min(ids.size(), static_cast<size_t>(params_.top_k)) : ids.size();
    if (params_.top_p < 1.0f) {
        const double enough = static_cast<double>(params_.top_p) * measure(tokens).weight;
        double       sum    = 0.0;
        size_t       kept   = 0; // the token that crosses the line is kept, and one at least
        while (kept < n && (kept == 0 || sum <= enough)) {
            if (kept == n_sorted) {
                ensure_sorted(std::min(n, std::max<size_t>(64, 4 * n_sorted)));
            }
            sum += static_cast<double>(weight_of(ids[kept++]));
        }
        n = kept;
    }
    if (n < ids.size()) {
        ensure_sorted(n);
    }
    if (params_.min_p > 0.0f) { // the largest weight is 1
        n = static_cast<size_t>(std::partition(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n),
                                               [&](int32_t id) { return weight_of(id) >= params_.min_p; }) -
                                ids.begin());
    }
    // the forbidden token may be all that is left; then the next one stays as well
    if (n == 1 && ids[0] == forbidden_ && ids.size() > 1) {
        std::iter_swap(ids.begin() + 1, std::min_element(ids.begin() + 1, ids.end(), likelier));
        n = 2;
    }
    ids.resize(n);
    std::vector<float> logits, weights;
    for (int32_t id : ids) {
        logits.push_back(logit_of(id));
        weights.push_back(weight_of(id));
    }
    tokens.logits  = std::move(logits);
    tokens.weights = std::move(weights);
}

} // namespace buoy
