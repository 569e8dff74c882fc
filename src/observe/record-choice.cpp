#include "observe/record-choice.h"

#include "buoy/message.h"

#include <algorithm>

namespace buoy {

namespace {

template <typename T> std::vector<T> ascending(std::vector<T> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

std::vector<int32_t> checked(const char * what, const std::vector<int32_t> & indices, int32_t count) {
    for (int32_t index : indices) {
        if (index < 0 || index >= count) {
            fail("recording: there is no ", what, " ", index, ", expected 0 to ", count - 1);
        }
    }
    return ascending(indices);
}

void check_regions(const RecordParams & params, int32_t n_positions) {
    for (const Region & region : params.regions) {
        for (const auto & [first, end] : region.spans) {
            if (first < 0 || end < first || end > n_positions) {
                fail("recording: region ", in_quotes(region.name), " spans positions ", first, " to ", end - 1,
                     ", expected 0 to ", n_positions - 1);
            }
        }
    }
    if (params.reduce == TapReduce::regions && params.regions.empty()) {
        fail("recording: reducing to regions needs at least one region");
    }
}

} // namespace

bool RecordChoice::has_step(int32_t step) const {
    return steps.empty() || std::binary_search(steps.begin(), steps.end(), step);
}

RecordChoice choose_record(const RecordParams & params, const ModelInfo & info, int32_t n_steps, int32_t n_positions) {
    RecordChoice choice;
    choice.taps   = ascending(params.taps);
    choice.layers = checked("layer", params.layers, info.n_layer);
    choice.heads  = checked("head", params.heads, info.n_head);
    choice.steps  = checked("step", params.steps, n_steps);
    choice.rows   = checked("row", params.rows, n_positions);
    choice.reduce = params.reduce;
    choice.type   = params.type;
    check_regions(params, n_positions);
    choice.n_regions = static_cast<int32_t>(params.regions.size());
    for (int32_t layer = 0; params.layers.empty() && layer < info.n_layer; layer++) {
        choice.layers.push_back(layer);
    }
    for (Tap tap : choice.taps) {
        if (tap < Tap::attn_scores || tap > Tap::resid_post) {
            fail("recording: there is no tap ", static_cast<int>(tap), ", expected 0 to ",
                 static_cast<int>(Tap::resid_post));
        }
    }
    if (choice.taps.empty()) {
        fail("recording: no tap given");
    }
    return choice;
}

} // namespace buoy
