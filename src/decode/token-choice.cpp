#include "decode/token-choice.h"

#include "buoy/error.h"

#include <algorithm>
#include <cmath>

namespace buoy {

TokenChoice::TokenChoice(const GenerateParams & params, int32_t forbidden_id, ConfidenceOf confidence)
    : params_(params), forbidden_(forbidden_id), confidence_(confidence), random_(params.seed) {}

bool TokenChoice::has_filters() const { return params_.top_k > 0 || params_.top_p < 1.0f || params_.min_p > 0.0f; }

bool TokenChoice::summary_is_enough() const {
    return params_.temperature == 0.0f && params_.logit_bias.empty() &&
           (confidence_ == ConfidenceOf::model || !has_filters());
}

Candidate TokenChoice::choose(const RowSummary & row) const {
    if (!std::isfinite(row.prob) || !std::isfinite(row.entropy)) {
        fail_runtime("the model's output is not a number");
    }
    Candidate c;
    // the mask is a state, not a token: where it wins, the runner-up is meant
    const bool forbidden = row.id == forbidden_;
    c.id                 = forbidden ? row.second_id : row.id;
    c.prob               = forbidden ? row.prob - row.margin : row.prob;
    c.margin             = row.margin;
    c.entropy            = row.entropy;
    return c;
}

void TokenChoice::fill_items(const float * logits, int32_t n_vocab) {
    items_.resize(static_cast<size_t>(n_vocab));
    float largest = -INFINITY;
    for (int32_t id = 0; id < n_vocab; id++) {
        if (std::isnan(logits[id])) {
            fail_runtime("the model's output is not a number");
        }
        items_[static_cast<size_t>(id)] = {id, logits[id], 0.0};
    }
    for (const auto & [id, bias] : params_.logit_bias) {
        items_[static_cast<size_t>(id)].logit += bias;
    }
    for (const Item & item : items_) {
        largest = std::max(largest, item.logit);
    }
    if (!std::isfinite(largest)) {
        fail_runtime("the model's output is not finite");
    }
    const float inverse =
        confidence_ == ConfidenceOf::sampling && params_.temperature > 0.0f ? 1.0f / params_.temperature : 1.0f;
    for (Item & item : items_) {
        item.logit  = (item.logit - largest) * inverse;
        item.weight = std::exp(static_cast<double>(item.logit));
    }
}

// Only as much of the vocabulary is sorted as is kept: a full sort would cost more than a small model's pass.
void TokenChoice::keep_likely() {
    const auto likelier = [](const Item & a, const Item & b) {
        return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
    };
    size_t     n_sorted      = 0;
    const auto ensure_sorted = [&](size_t n) {
        const auto begin = items_.begin() + static_cast<ptrdiff_t>(n_sorted);
        if (n > n_sorted) {
            std::partial_sort(begin, items_.begin() + static_cast<ptrdiff_t>(n), items_.end(), likelier);
            n_sorted = n;
        }
    };
    if (!has_filters()) {
        return;
    }
    size_t n = params_.top_k > 0 ? std::min(items_.size(), static_cast<size_t>(params_.top_k)) : items_.size();
    if (params_.top_p < 1.0f) {
        const double enough = static_cast<double>(params_.top_p) * measure().weight;
        double       sum    = 0.0;
        size_t       kept   = 0; // the token that crosses the line is kept, and one at least
        while (kept < n && (kept == 0 || sum <= enough)) {
            if (kept == n_sorted) {
                ensure_sorted(std::min(n, std::max<size_t>(64, 4 * n_sorted)));
            }
            sum += items_[kept++].weight;
        }
        n = kept;
    }
    if (n < items_.size()) {
        ensure_sorted(n);
    }
    if (params_.min_p > 0.0f) { // the largest weight is 1
        const auto least = static_cast<double>(params_.min_p);
        n = static_cast<size_t>(std::partition(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n),
                                               [&](const Item & item) { return item.weight >= least; }) -
                                items_.begin());
    }
    // the forbidden token may be all that is left; then the next one stays as well
    if (n == 1 && items_[0].id == forbidden_ && items_.size() > 1) {
        std::iter_swap(items_.begin() + 1, std::min_element(items_.begin() + 1, items_.end(), likelier));
        n = 2;
    }
    items_.resize(n);
}

// Gumbel-max in the form of an exponential race: the smallest E / w^(1/T) wins, with E = −ln u. LLaDA's exp(l) / (−ln u)^T is
// the same order.
TokenChoice::Item TokenChoice::draw(int32_t step, int32_t position) const {
    const bool   tempered = confidence_ == ConfidenceOf::sampling;
    const double inverse =
        params_.temperature > 0.0f && !tempered ? 1.0 / static_cast<double>(params_.temperature) : 1.0;
    Item   best     = {-1, 0.0f, 0.0};
    double best_key = INFINITY;
    for (const Item & item : items_) {
        if (item.id == forbidden_) {
            continue;
        }
        double key = -static_cast<double>(item.logit) * inverse;
        if (params_.temperature > 0.0f) {
            const double u = random_.uniform(static_cast<uint64_t>(step), static_cast<uint64_t>(position),
                                             static_cast<uint64_t>(item.id) + 1);
            key += std::log(-std::log(u));
        }
        if (best.id < 0 || key < best_key || (key == best_key && item.id < best.id)) {
            best     = item;
            best_key = key;
        }
    }
    return best;
}

TokenChoice::Totals TokenChoice::measure() const {
    Totals t;
    for (const Item & item : items_) {
        t.weight += item.weight;
        t.weighted_logit += item.weight > 0.0 ? item.weight * static_cast<double>(item.logit) : 0.0;
        t.second = std::max(t.second, std::min(t.first, item.weight));
        t.first  = std::max(t.first, item.weight);
    }
    return t;
}

Candidate TokenChoice::choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position) {
    fill_items(logits, n_vocab);
    Totals totals = confidence_ == ConfidenceOf::model ? measure() : Totals{};
    keep_likely();
    if (confidence_ == ConfidenceOf::sampling) {
        totals = measure();
    }
    const Item chosen = draw(step, position);

    Candidate c;
    c.id      = chosen.id;
    c.prob    = static_cast<float>(chosen.weight / totals.weight);
    c.margin  = static_cast<float>((totals.first - totals.second) / totals.weight);
    c.entropy = static_cast<float>(std::max(0.0, std::log(totals.weight) - totals.weighted_logit / totals.weight));
    return c;
}

} // namespace buoy
