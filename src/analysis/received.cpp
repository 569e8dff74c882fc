#include "analysis/received.h"

#include "buoy/message.h"

#include <algorithm>
#include <limits>

namespace buoy::analysis {

namespace {

const auto reductions = {TapReduce::none, TapReduce::heads, TapReduce::received};

// Adds up the rows of a pattern, a mean over heads.
void add_rows(const Array & array, TapReduce reduce, const std::vector<size_t> & rows, Received & sums) {
    const size_t K       = array.shape.back();
    const size_t H       = reduce == TapReduce::heads ? 1 : array.shape[0];
    const size_t Q       = reduce == TapReduce::received ? 1 : array.shape[array.shape.size() - 2];
    const auto   n_heads = static_cast<double>(H);
    sums.resize(std::max(sums.size(), K));
    std::vector<double> part(K);
    for (size_t h = 0; h < H; h++) {
        const auto add = [&](size_t row, double weight) {
            const float * values = array.values.data() + (h * Q + row) * K;
            for (size_t j = 0; j < K; j++) {
                part[j] += weight * static_cast<double>(values[j]);
            }
        };
        if (reduce == TapReduce::received) {
            add(0, static_cast<double>(rows.size()));
        } else {
            std::for_each(rows.begin(), rows.end(), [&](size_t row) { add(row, 1); });
        }
    }
    for (size_t j = 0; j < K; j++) {
        sums[j] += part[j] / n_heads;
    }
}

void divide(Received & sums, size_t n) {
    for (double & value : sums) {
        value /= static_cast<double>(n);
    }
}

// Some rows of a step can't be told from a mean over all of them.
void check_rows(const Recording & recording, int32_t step, size_t n_rows, const std::string & metric) {
    if (recording.reduce() == TapReduce::received && n_rows != recording.rows(step).size()) {
        fail(printable(recording.path()), ": ", metric, " needs individual rows of step ", step,
             ", but only their mean was recorded; record with `record.reduce` heads");
    }
}

} // namespace

Array mean_over_heads(Array pattern, TapReduce reduce) {
    if (reduce == TapReduce::heads) {
        return pattern;
    }
    const size_t H = pattern.shape[0], n = pattern.shape[1] * pattern.shape[2];
    Array        mean{{pattern.shape[1], pattern.shape[2]}, std::vector<float>(n)};
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t h = 0; h < H; h++) {
            sum += static_cast<double>(pattern.values[h * n + i]);
        }
        mean.values[i] = static_cast<float>(sum / static_cast<double>(H));
    }
    return mean;
}

std::vector<int32_t> choose_layers(const Recording & recording, const IndexRanges & ranges) {
    const std::vector<int32_t> & layers = recording.layers();
    const std::vector<int32_t>   wanted =
        resolve_ranges(concat("`layers`: ", printable(recording.path())), ranges, "layer", layers.back() + 1);
    for (int32_t layer : wanted) {
        if (!std::binary_search(layers.begin(), layers.end(), layer)) {
            fail("`layers`: ", printable(recording.path()), ": layer ", layer, " was not recorded (`record.layers`)");
        }
    }
    return wanted.empty() ? layers : wanted;
}

std::vector<StepRows> latest_rows(const Recording & recording, const std::optional<int32_t> & step) {
    if (step) {
        recording.rows(*step); // refuses a step that is not there
    }
    std::vector<bool>     done(recording.n_positions(), false);
    std::vector<StepRows> choice;
    for (auto at = recording.steps().rbegin(); at != recording.steps().rend(); ++at) {
        StepRows one{*at, {}};
        if (!step || *at <= *step) {
            const std::vector<int32_t> & rows = recording.rows(*at);
            for (size_t i = 0; i < rows.size(); i++) {
                if (!done[static_cast<size_t>(rows[i])]) {
                    done[static_cast<size_t>(rows[i])] = true;
                    one.rows.push_back(i);
                }
            }
        }
        if (!one.rows.empty()) {
            choice.push_back(std::move(one));
        }
    }
    if (choice.empty()) {
        fail(printable(recording.path()), ": no query row ", step ? concat("up to step ", *step, " ") : std::string(),
             "was recorded (`record.rows`)");
    }
    std::reverse(choice.begin(), choice.end());
    return choice;
}

std::vector<Received> received_of_rows(const Recording & recording, const std::vector<int32_t> & layers,
                                       const std::vector<StepRows> & choice, const std::string & metric) {
    recording.need_reduce(reductions, metric);
    std::vector<Received> sums(layers.size());
    size_t                n = 0;
    for (const StepRows & one : choice) {
        check_rows(recording, one.step, one.rows.size(), metric);
        for (size_t l = 0; l < layers.size(); l++) {
            add_rows(recording.read(Tap::pattern, one.step, layers[l]), recording.reduce(), one.rows, sums[l]);
        }
        n += one.rows.size();
    }
    for (Received & received : sums) {
        divide(received, n);
    }
    return sums;
}

ReceivedSoFar::ReceivedSoFar(const Recording & recording, size_t n_layers, std::string metric)
    : recording_(recording), metric_(std::move(metric)), alive_(n_layers) {
    constexpr int32_t    never = std::numeric_limits<int32_t>::max();
    std::vector<int32_t> next(recording.n_positions(), never); // the step that computes a position's row
    for (auto step = recording.steps().rbegin(); step != recording.steps().rend(); ++step) {
        std::map<int32_t, std::vector<size_t>> by_end;
        const std::vector<int32_t> &           rows = recording.rows(*step);
        for (size_t i = 0; i < rows.size(); i++) {
            int32_t & end = next[static_cast<size_t>(rows[i])];
            by_end[end].push_back(i);
            end = *step;
        }
        for (auto & [end, list] : by_end) {
            parts_[*step].push_back({end, std::move(list)});
        }
    }
}

Received ReceivedSoFar::add(int32_t step, size_t layer, const Array & pattern) {
    std::map<int32_t, Sums> & alive = alive_[layer];
    alive.erase(step);
    for (const Part & part : parts_.at(step)) {
        check_rows(recording_, step, part.rows.size(), metric_);
        Sums & into = alive[part.until];
        add_rows(pattern, recording_.reduce(), part.rows, into.sums);
        into.n += part.rows.size();
    }
    Received total;
    size_t   n = 0;
    for (const auto & [until, one] : alive) {
        total.resize(std::max(total.size(), one.sums.size()));
        std::transform(one.sums.begin(), one.sums.end(), total.begin(), total.begin(), std::plus<>());
        n += one.n;
    }
    divide(total, n);
    return total;
}

void for_each_received(const Recording & recording, const std::vector<int32_t> & layers,
                       const std::optional<int32_t> & step, const std::string & metric,
                       const std::function<void(int32_t, size_t, const Received &)> & visit) {
    recording.need_reduce(reductions, metric);
    if (step) {
        const std::vector<Received> all = received_of_rows(recording, layers, latest_rows(recording, step), metric);
        for (size_t l = 0; l < layers.size(); l++) {
            visit(*step, l, all[l]);
        }
        return;
    }
    ReceivedSoFar so_far(recording, layers.size(), metric);
    for (int32_t s : recording.steps()) {
        for (size_t l = 0; l < layers.size() && !recording.rows(s).empty(); l++) {
            visit(s, l, so_far.add(s, l, recording.read(Tap::pattern, s, layers[l])));
        }
    }
}

} // namespace buoy::analysis
