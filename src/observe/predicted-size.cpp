#include "observe/predicted-size.h"

#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/parse.h"
#include "io/npz-writer.h"
#include "observe/record-member.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace buoy {

namespace {

int64_t count_rows(const RecordChoice & choice, const PlannedStep & step) {
    if (choice.rows.empty()) {
        return step.n_rows;
    }
    const auto first = std::lower_bound(choice.rows.begin(), choice.rows.end(), step.row_first);
    const auto last  = std::lower_bound(first, choice.rows.end(), step.row_first + step.n_rows);
    return last - first;
}

void add_step(const RecordChoice & choice, const RecordedShape & shape, int32_t index, const PlannedStep & step,
              NpzSize & size) {
    const int64_t n_rows = count_rows(choice, step);
    size.add_array(rows_name(index).size(), NpyType::i4, {n_rows});
    if (shape.plan.adaptive) {
        size.add_array(computed_name(index).size(), NpyType::i4, {shape.info.n_layer, shape.plan.n_positions});
    }
    if (n_rows == 0) {
        return;
    }
    for (Tap tap : choice.taps) {
        const std::vector<int64_t> extents = tap_member_shape(tap, choice, shape.info, n_rows, step.n_keys);
        const NpyType              type    = npy_type(choice.type);
        const uint64_t             n = std::accumulate(extents.begin(), extents.end(), uint64_t{npy_item_size(type)},
                                                       [](uint64_t a, int64_t b) { return a * static_cast<uint64_t>(b); });
        const uint64_t             bytes = npy_header(type, extents).size() + n;
        for (int32_t layer : choice.layers) {
            size.add(tap_member_name(tap, index, layer).size(), bytes);
        }
    }
}

// Which n of the steps: the first of those chosen.
std::vector<int32_t> first_steps(const RecordChoice & choice, const RecordedShape & shape, size_t n) {
    std::vector<int32_t> steps = choice.steps;
    for (size_t i = 0; choice.steps.empty() && i < shape.plan.steps.size(); i++) {
        steps.push_back(static_cast<int32_t>(i));
    }
    steps.resize(std::min(n, steps.size()));
    return steps;
}

// The largest n below count for which fits(n); 0 if there is none. Fits for n implies fits for less.
template <typename Fits> size_t largest(size_t count, const Fits & fits) {
    size_t low = 0;
    size_t end = count;
    while (end - low > 1) {
        const size_t middle        = low + (end - low) / 2;
        (fits(middle) ? low : end) = middle;
    }
    return low;
}

} // namespace

uint64_t predict_size(const RecordChoice & choice, const RecordedShape & shape) {
    const std::vector<PlannedStep> & steps = shape.plan.steps;
    const int32_t                    T     = shape.plan.n_positions;
    const auto                       S     = static_cast<int64_t>(steps.size());
    NpzSize                          size;
    for (size_t i = 0; i < steps.size(); i++) {
        const auto index = static_cast<int32_t>(i);
        if (!choice.has_step(index)) {
            continue;
        }
        // where the model decides when a block ends, any step may be the first of the next one, which computes everything
        const bool unknown = shape.plan.open_ended && !choice.steps.empty();
        if (unknown || steps[i].n_rows > 0) {
            add_step(choice, shape, index, unknown ? PlannedStep{0, T, T} : steps[i], size);
        }
    }
    size.add_array(std::string("tokens.npy").size(), NpyType::i4, {S + 1, T});
    size.add_array(std::string("unmask_step.npy").size(), NpyType::i4, {T});
    size.add_array(std::string("confidence.npy").size(), NpyType::f4, {S, T});
    size.add(std::string("meta.json").size(), shape.meta_size);
    return size.total();
}

std::string advise_smaller(const RecordChoice & choice, const RecordedShape & shape, uint64_t limit) {
    const bool   reducible = std::find(choice.taps.begin(), choice.taps.end(), Tap::pattern) != choice.taps.end();
    RecordChoice smaller   = choice;
    for (TapReduce reduce : {TapReduce::heads, TapReduce::received}) {
        smaller.reduce = reduce;
        if (const uint64_t size = predict_size(smaller, shape); reducible && reduce > choice.reduce && size <= limit) {
            return concat("`record.reduce` ", name_of(reduce_names, reduce), " would need ", size_text(size));
        }
    }
    smaller             = choice;
    const auto n_layers = largest(choice.layers.size(), [&](size_t n) {
        smaller.layers.assign(choice.layers.begin(), choice.layers.begin() + static_cast<int64_t>(n));
        return predict_size(smaller, shape) <= limit;
    });
    if (n_layers > 0) {
        return concat("`record.layers` with at most ", n_layers, " of the ", choice.layers.size(), " layers would fit");
    }
    smaller               = choice;
    const size_t n_chosen = first_steps(choice, shape, shape.plan.steps.size()).size();
    const size_t n_steps  = largest(n_chosen, [&](size_t n) {
        smaller.steps = first_steps(choice, shape, n);
        return predict_size(smaller, shape) <= limit;
    });
    if (n_steps > 0) {
        return concat("`record.steps` with at most ", n_steps, " of the ", n_chosen, " steps would fit");
    }
    return "even one layer, one step or the strongest reduction would not fit";
}

} // namespace buoy
