#include "decode/token-choice.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "kernel/kernels.h"
#include "kernel/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy {

TokenChoice::TokenChoice(const GenerateParams & params, int32_t forbidden_id, ConfidenceOf confidence,
                         int32_t n_threads)
    : params_(params), forbidden_(forbidden_id), confidence_(confidence), random_(params.seed),
      n_threads_(n_threads > 0 ? n_threads : core_count()) {}

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

namespace {

// Sums and maxima over a vocabulary are kept in lanes, whose operations do not wait for each other.
constexpr size_t n_lanes = 8;

float largest_of(const std::vector<float> & values) {
    float lanes[n_lanes];
    bool  nan[n_lanes] = {};
    std::fill(lanes, lanes + n_lanes, -INFINITY);
    const auto take = [&](size_t lane, float value) {
        lanes[lane] = lanes[lane] < value ? value : lanes[lane];
        nan[lane] |= value != value;
    };
    size_t i = 0;
    for (; i + n_lanes <= values.size(); i += n_lanes) {
        for (size_t lane = 0; lane < n_lanes; lane++) {
            take(lane, values[i + lane]);
        }
    }
    for (; i < values.size(); i++) {
        take(0, values[i]);
    }
    if (std::any_of(nan, nan + n_lanes, [](bool is) { return is; })) {
        fail_runtime("the model's output is not a number");
    }
    return *std::max_element(lanes, lanes + n_lanes);
}

double sum_of(const float * values, size_t n) {
    double lanes[n_lanes] = {};
    size_t i              = 0;
    for (; i + n_lanes <= n; i += n_lanes) {
        for (size_t lane = 0; lane < n_lanes; lane++) {
            lanes[lane] += static_cast<double>(values[i + lane]);
        }
    }
    for (; i < n; i++) {
        lanes[0] += static_cast<double>(values[i]);
    }
    return std::accumulate(lanes, lanes + n_lanes, 0.0);
}

} // namespace

void TokenChoice::read(const float * logits, int32_t n_vocab, Tokens & to) const {
    const auto n = static_cast<size_t>(n_vocab);
    if (to.ids.size() != n || has_filters()) { // else they are as the row before left them
        to.ids.resize(n);
        std::iota(to.ids.begin(), to.ids.end(), 0);
    }
    to.logits.assign(logits, logits + n_vocab);
    for (const auto & [id, bias] : params_.logit_bias) {
        to.logits[static_cast<size_t>(id)] += bias;
    }
    const float largest = largest_of(to.logits);
    if (!std::isfinite(largest)) {
        fail_runtime("the model's output is not finite");
    }
    const float inverse =
        confidence_ == ConfidenceOf::sampling && params_.temperature > 0.0f ? 1.0f / params_.temperature : 1.0f;
    for (float & logit : to.logits) {
        logit = (logit - largest) * inverse;
    }
    to.weights.resize(n);
    exponentials(to.logits.data(), to.weights.data(), n_vocab, 1.0f);
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

// Gumbel-max in the form of an exponential race: the smallest E / w^(1/T) wins, with E = −ln u; LLaDA's exp(l) / (−ln u)^T is
// the same order. Exponential variables have no memory, so the tokens race in groups: a group's first arrives like one token
// of the group's weight, and is each of its tokens with the share it has of that. Nobody wins where all weigh nothing.
std::optional<size_t> TokenChoice::race(const std::vector<float> & weights, int32_t step, int32_t position) const {
    constexpr size_t      group_size = 64;
    const auto            stream     = random_.stream(static_cast<uint64_t>(step), static_cast<uint64_t>(position));
    std::optional<size_t> winner;
    double                earliest = INFINITY, group_weight = 0.0;
    for (size_t first = 0; first < weights.size(); first += group_size) {
        const double weight = sum_of(weights.data() + first, std::min(group_size, weights.size() - first));
        const double time   = -std::log(stream.uniform(1 + first)) / weight;
        if (time < earliest) {
            winner       = first;
            earliest     = time;
            group_weight = weight;
        }
    }
    if (!winner) {
        return winner;
    }
    const size_t first = *winner, last = std::min(first + group_size, weights.size());
    double       rest = group_weight * stream.uniform(2 + first);
    for (size_t i = first; i < last && rest >= 0.0; i++) {
        winner = weights[i] > 0.0f ? i : winner;
        rest -= static_cast<double>(weights[i]);
    }
    return winner;
}

size_t TokenChoice::draw(Tokens & tokens, int32_t step, int32_t position) const {
    if (params_.temperature == 0.0f || params_.greedy) {
        return likeliest(tokens);
    }
    const float inverse = confidence_ == ConfidenceOf::sampling ? 1.0f : 1.0f / params_.temperature;
    tokens.tempered.resize(tokens.logits.size());
    exponentials(tokens.logits.data(), tokens.tempered.data(), static_cast<int64_t>(tokens.logits.size()), inverse);
    const auto forbidden = std::find(tokens.ids.begin(), tokens.ids.end(), forbidden_);
    if (forbidden != tokens.ids.end()) {
        tokens.tempered[static_cast<size_t>(forbidden - tokens.ids.begin())] = 0.0f;
    }
    const auto winner = race(tokens.tempered, step, position);
    return winner ? *winner : likeliest(tokens); // what may be written weighs nothing beside what may not
}

// Temperature alone, and confidence from the full softmax: the same choice in a third of the time, which a large vocabulary needs.
std::optional<Candidate> TokenChoice::choose_plain(const float * logits, int32_t n_vocab, int32_t step,
                                                   int32_t position, Tokens & room) const {
    const bool plain = params_.temperature > 0.0f && !params_.greedy && confidence_ == ConfidenceOf::model &&
                       !has_filters() && params_.logit_bias.empty();
    if (!plain || kernel_table() == nullptr) {
        return {};
    }
    const LogitSummary all = kernel_table()->summarize(logits, n_vocab);
    if (!std::isfinite(all.prob) || !std::isfinite(all.entropy)) {
        return {}; // to where it is an error
    }
    const float largest = logits[all.id];
    room.tempered.resize(static_cast<size_t>(n_vocab));
    exponentials(logits, room.tempered.data(), n_vocab, 1.0f / params_.temperature, largest);
    if (forbidden_ >= 0 && forbidden_ < n_vocab) {
        room.tempered[static_cast<size_t>(forbidden_)] = 0.0f;
    }
    const auto winner = race(room.tempered, step, position);
    if (!winner) {
        return {};
    }
    Candidate c;
    c.id      = static_cast<int32_t>(*winner);
    c.prob    = std::exp(logits[c.id] - largest) * all.prob;
    c.margin  = all.prob - all.prob_second;
    c.entropy = all.entropy;
    return c;
}

TokenChoice::Totals TokenChoice::measure(const Tokens & tokens) {
    double     weight[n_lanes] = {}, weighted_logit[n_lanes] = {};
    float      first[n_lanes] = {}, second[n_lanes] = {};
    const auto take = [&](size_t lane, size_t i) {
        const float w = tokens.weights[i];
        weight[lane] += static_cast<double>(w);
        weighted_logit[lane] += static_cast<double>(w > 0.0f ? w * tokens.logits[i] : 0.0f);
        const float lower = first[lane] < w ? first[lane] : w;
        second[lane]      = second[lane] < lower ? lower : second[lane];
        first[lane]       = first[lane] < w ? w : first[lane];
    };
    size_t i = 0;
    for (; i + n_lanes <= tokens.ids.size(); i += n_lanes) {
        for (size_t lane = 0; lane < n_lanes; lane++) {
            take(lane, i + lane);
        }
    }
    for (; i < tokens.ids.size(); i++) {
        take(0, i);
    }
    Totals t;
    for (size_t lane = 0; lane < n_lanes; lane++) {
        t.weight += weight[lane];
        t.weighted_logit += weighted_logit[lane];
        const auto a = static_cast<double>(first[lane]), b = static_cast<double>(second[lane]);
        t.second = std::max({t.second, b, std::min(t.first, a)});
        t.first  = std::max(t.first, a);
    }
    return t;
}

Candidate TokenChoice::choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position) const {
    Tokens room;
    return choose(logits, n_vocab, step, position, room);
}

Candidate TokenChoice::choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position,
                              Tokens & tokens) const {
    if (const auto plain = choose_plain(logits, n_vocab, step, position, tokens)) {
        return *plain;
    }
    read(logits, n_vocab, tokens);
    Totals totals = confidence_ == ConfidenceOf::model ? measure(tokens) : Totals{};
    keep_likely(tokens);
    if (confidence_ == ConfidenceOf::sampling) {
        totals = measure(tokens);
    }
    const size_t chosen = draw(tokens, step, position);
    if (chosen == tokens.ids.size()) {
        fail_runtime("the vocabulary has no token except the mask");
    }
    Candidate c;
    c.id      = tokens.ids[chosen];
    c.prob    = static_cast<float>(static_cast<double>(tokens.weights[chosen]) / totals.weight);
    c.margin  = static_cast<float>((totals.first - totals.second) / totals.weight);
    c.entropy = static_cast<float>(std::max(0.0, std::log(totals.weight) - totals.weighted_logit / totals.weight));
    return c;
}

size_t TokenChoice::thread_count(size_t n_logits) const {
    constexpr size_t worth_it = 1 << 16; // logits, of a thread
    return std::clamp<size_t>(n_logits / worth_it, 1, static_cast<size_t>(n_threads_));
}

std::vector<Candidate> TokenChoice::choose(const std::vector<float> & logits, int32_t n_vocab, int32_t step,
                                           const std::vector<int32_t> & positions) const {
    const size_t           n = positions.size();
    std::vector<Candidate> candidates(n);
    const auto             n_threads = static_cast<int>(thread_count(logits.size()));
    split_work(static_cast<int64_t>(n), n_threads, [&](int, int64_t first, int64_t last) {
        Tokens room;
        for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); i++) {
            candidates[i] = choose(logits.data() + i * static_cast<size_t>(n_vocab), n_vocab, step, positions[i], room);
        }
    });
    return candidates;
}

} // namespace buoy
