#include "analysis/received.h"

#include "buoy/error.h"
#include "io/printable.h"

#include <algorithm>
#include <numeric>

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

std::vector<size_t> all_rows(const Recording & recording, int32_t step) {
    std::vector<size_t> rows(recording.rows(step).size());
    std::iota(rows.begin(), rows.end(), size_t{0});
    return rows;
}

} // namespace

Received received_of(const Array & pattern, TapReduce reduce) {
    std::vector<size_t> rows(reduce == TapReduce::received ? 1 : pattern.shape[pattern.shape.size() - 2]);
    std::iota(rows.begin(), rows.end(), size_t{0});
    Received received;
    add_rows(pattern, reduce, rows, received);
    divide(received, rows.size());
    return received;
}

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
        resolve_ranges(concat("--layers: ", printable(recording.path())), ranges, "layer", layers.back() + 1);
    for (int32_t layer : wanted) {
        if (!std::binary_search(layers.begin(), layers.end(), layer)) {
            fail("--layers: ", printable(recording.path()), ": layer ", layer, " was not recorded (--attn-layers)");
        }
    }
    return wanted.empty() ? layers : wanted;
}

std::vector<StepRows> finished_rows(const Recording & recording) {
    std::vector<bool>     done(recording.n_positions(), false);
    std::vector<StepRows> choice;
    for (auto step = recording.steps().rbegin(); step != recording.steps().rend(); ++step) {
        const std::vector<int32_t> & rows = recording.rows(*step);
        StepRows                     one{*step, {}};
        for (size_t i = 0; i < rows.size(); i++) {
            if (!done[static_cast<size_t>(rows[i])]) {
                done[static_cast<size_t>(rows[i])] = true;
                one.rows.push_back(i);
            }
        }
        if (!one.rows.empty()) {
            choice.push_back(std::move(one));
        }
    }
    std::reverse(choice.begin(), choice.end());
    return choice;
}

std::vector<StepRows> choose_rows(const Recording & recording, const std::optional<int32_t> & step) {
    if (!step) {
        return finished_rows(recording);
    }
    std::vector<size_t> rows = all_rows(recording, *step);
    if (rows.empty()) {
        fail(printable(recording.path()), ": no query row of step ", *step, " was recorded (--attn-rows)");
    }
    return {{*step, std::move(rows)}};
}

std::vector<Received> received_of_rows(const Recording & recording, const std::vector<int32_t> & layers,
                                       const std::vector<StepRows> & choice, const std::string & metric) {
    recording.need_reduce(reductions, metric);
    std::vector<Received> sums(layers.size());
    size_t                n = 0;
    for (const StepRows & one : choice) {
        if (recording.reduce() == TapReduce::received && one.rows.size() != recording.rows(one.step).size()) {
            fail(printable(recording.path()), ": ", metric, " of the finished sequence needs some of step ", one.step,
                 "'s rows, their mean was recorded; record with --attn-reduce heads, or ask for one --step");
        }
        for (size_t l = 0; l < layers.size(); l++) {
            add_rows(recording.read(Tap::pattern, one.step, layers[l]), recording.reduce(), one.rows, sums[l]);
        }
        n += one.rows.size();
    }
    if (n == 0) {
        fail(printable(recording.path()), ": the recording is empty: no step has a query row (--attn-rows)");
    }
    for (Received & received : sums) {
        divide(received, n);
    }
    return sums;
}

void for_each_received(const Recording & recording, const std::vector<int32_t> & layers,
                       const std::optional<int32_t> & step, const std::string & metric,
                       const std::function<void(int32_t, size_t, const Received &)> & visit) {
    recording.need_reduce(reductions, metric);
    const std::vector<int32_t> steps = step ? std::vector<int32_t>{*step} : recording.steps();
    for (int32_t s : steps) {
        for (size_t l = 0; l < layers.size() && !recording.rows(s).empty(); l++) {
            visit(s, l, received_of(recording.read(Tap::pattern, s, layers[l]), recording.reduce()));
        }
    }
}

} // namespace buoy::analysis
