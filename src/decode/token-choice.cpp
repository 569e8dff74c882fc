#include "decode/token-choice.h"

#include "buoy/error.h"
#include "kernel/exponentials.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>
#include <thread>

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

TokenChoice::Tokens TokenChoice::read(const float * logits, int32_t n_vocab) const {
    const auto n = static_cast<size_t>(n_vocab);
    Tokens     tokens;
    tokens.ids.resize(n);
    std::iota(tokens.ids.begin(), tokens.ids.end(), 0);
    tokens.logits.assign(logits, logits + n_vocab);
    for (const auto & [id, bias] : params_.logit_bias) {
        tokens.logits[static_cast<size_t>(id)] += bias;
    }
    float largest = -INFINITY;
    bool  is_nan  = false;
    for (float logit : tokens.logits) {
        largest = std::max(largest, logit);
        is_nan |= logit != logit;
    }
    if (is_nan) {
        fail_runtime("the model's output is not a number");
    }
    if (!std::isfinite(largest)) {
        fail_runtime("the model's output is not finite");
    }
    const float inverse =
        confidence_ == ConfidenceOf::sampling && params_.temperature > 0.0f ? 1.0f / params_.temperature : 1.0f;
    for (float & logit : tokens.logits) {
        logit = (logit - largest) * inverse;
    }
    tokens.weights.resize(n);
    exponentials(tokens.logits.data(), tokens.weights.data(), n_vocab, 1.0f);
    return tokens;
}

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
    Tokens kept;
    for (int32_t id : ids) {
        kept.logits.push_back(logit_of(id));
        kept.weights.push_back(weight_of(id));
    }
    kept.ids = std::move(ids);
    tokens   = std::move(kept);
}

size_t TokenChoice::likeliest(const Tokens & tokens) const {
    size_t best = tokens.ids.size();
    for (size_t i = 0; i < tokens.ids.size(); i++) {
        const bool above = best == tokens.ids.size() || tokens.logits[i] > tokens.logits[best] ||
                           (tokens.logits[i] == tokens.logits[best] && tokens.ids[i] < tokens.ids[best]);
        if (above && tokens.ids[i] != forbidden_) {
            best = i;
        }
    }
    return best;
}

// Gumbel-max in the form of an exponential race: the smallest E / w^(1/T) wins, with E = −ln u. LLaDA's exp(l) / (−ln u)^T is
// the same order. E ≥ 1 − u, so that most tokens are out without a logarithm.
size_t TokenChoice::draw(const Tokens & tokens, int32_t step, int32_t position) const {
    size_t best = likeliest(tokens);
    if (params_.temperature == 0.0f || best == tokens.ids.size()) {
        return best;
    }
    const float inverse = confidence_ == ConfidenceOf::sampling ? 1.0f : 1.0f / params_.temperature;
    const auto  stream  = random_.stream(static_cast<uint64_t>(step), static_cast<uint64_t>(position));
    const auto  uniform = [&](size_t i) { return stream.uniform(static_cast<uint64_t>(tokens.ids[i]) + 1); };
    const auto  key     = [&](size_t i, double u) {
        return std::log(-std::log(u)) - static_cast<double>(tokens.logits[i]) * static_cast<double>(inverse);
    };

    std::vector<float> tempered; // w^(1/T)
    if (inverse != 1.0f) {
        tempered.resize(tokens.logits.size());
        exponentials(tokens.logits.data(), tempered.data(), static_cast<int64_t>(tempered.size()), inverse);
    }
    const std::vector<float> & weights  = inverse != 1.0f ? tempered : tokens.weights;
    constexpr double           margin   = 1.001; // for their rounding
    double                     best_key = key(best, uniform(best));
    double                     limit    = margin * std::exp(best_key);
    for (size_t i = 0; i < tokens.ids.size(); i++) {
        const double u = uniform(i);
        if (1.0 - u > limit * static_cast<double>(weights[i]) || tokens.ids[i] == forbidden_) {
            continue;
        }
        const double k = key(i, u);
        if (k < best_key || (k == best_key && tokens.ids[i] < tokens.ids[best])) {
            best     = i;
            best_key = k;
            limit    = margin * std::exp(best_key);
        }
    }
    return best;
}

TokenChoice::Totals TokenChoice::measure(const Tokens & tokens) {
    Totals t;
    for (size_t i = 0; i < tokens.ids.size(); i++) {
        const auto weight = static_cast<double>(tokens.weights[i]);
        t.weight += weight;
        t.weighted_logit += weight > 0.0 ? weight * static_cast<double>(tokens.logits[i]) : 0.0;
        t.second = std::max(t.second, std::min(t.first, weight));
        t.first  = std::max(t.first, weight);
    }
    return t;
}

Candidate TokenChoice::choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position) const {
    Tokens tokens = read(logits, n_vocab);
    Totals totals = confidence_ == ConfidenceOf::model ? measure(tokens) : Totals{};
    keep_likely(tokens);
    if (confidence_ == ConfidenceOf::sampling) {
        totals = measure(tokens);
    }
    const size_t chosen = draw(tokens, step, position);
    if (chosen == tokens.ids.size()) {
        fail_runtime("the vocabulary has no token but the mask");
    }
    Candidate c;
    c.id      = tokens.ids[chosen];
    c.prob    = static_cast<float>(static_cast<double>(tokens.weights[chosen]) / totals.weight);
    c.margin  = static_cast<float>((totals.first - totals.second) / totals.weight);
    c.entropy = static_cast<float>(std::max(0.0, std::log(totals.weight) - totals.weighted_logit / totals.weight));
    return c;
}

std::vector<Candidate> TokenChoice::choose(const std::vector<float> & logits, int32_t n_vocab, int32_t step,
                                           const std::vector<int32_t> & positions) const {
    const size_t           n = positions.size();
    std::vector<Candidate> candidates(n);
    const auto             choose_some = [&](size_t first, size_t last) {
        for (size_t i = first; i < last; i++) {
            candidates[i] = choose(logits.data() + i * static_cast<size_t>(n_vocab), n_vocab, step, positions[i]);
        }
    };
    constexpr size_t worth_it = 1 << 16; // logits, of a thread
    const size_t     n_threads =
        std::clamp<size_t>(logits.size() / worth_it, 1, std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::future<void>> others;
    for (size_t t = 1; t < n_threads; t++) {
        others.push_back(std::async(std::launch::async, choose_some, n * t / n_threads, n * (t + 1) / n_threads));
    }
    choose_some(0, n / n_threads);
    for (std::future<void> & other : others) {
        other.get();
    }
    return candidates;
}

} // namespace buoy
