#include "engine/tap-request.h"

#include "base/fail.h"

#include <numeric>

namespace buoy {

namespace {

void check_indices(const char * what, const std::vector<int32_t> & indices, size_t n) {
    int32_t previous = -1;
    for (const int32_t index : indices) {
        if (index <= previous || static_cast<size_t>(index) >= n) {
            fail("tapped ", what, " ", index, " follows ", previous, ", expected ascending ones of 0 to ", n - 1);
        }
        previous = index;
    }
}

} // namespace

void check_taps(const ForwardRequest & request, const ModelInfo & info, size_t n_tokens) {
    if (request.taps.empty()) {
        return;
    }
    if (!request.sink) {
        fail("taps were asked for without a sink to take them");
    }
    for (const TapPoint & point : request.taps) {
        if (point.layer < 0 || point.layer >= info.n_layer) {
            fail("layer ", point.layer, " does not exist, the model has layers 0 to ", info.n_layer - 1);
        }
        if (point.reduce == TapReduce::regions && request.selection.regions.empty()) {
            fail(tap_name(point.tap, point.layer), " is to be reduced to regions, but there are none");
        }
    }
    check_indices("head", request.selection.heads, static_cast<size_t>(info.n_head));
    check_indices("row", request.selection.rows, n_tokens);
}

std::vector<int32_t> all_if_empty(std::vector<int32_t> chosen, int64_t n) {
    if (chosen.empty()) {
        chosen.resize(static_cast<size_t>(n));
        std::iota(chosen.begin(), chosen.end(), 0);
    }
    return chosen;
}

} // namespace buoy
