#include "support/one-split.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

namespace buoy::test {

namespace {

void check_pass(Context & context, const ForwardRequest & request, const std::string & device) {
    context.forward(request);
    const std::vector<GraphSplit> splits = context.graph_splits();
    REQUIRE(splits.size() == 1);
    CHECK(splits[0].device == device);
    CHECK(splits[0].n_nodes > 0);
}

} // namespace

void check_one_split(Context & context, const std::string & device) {
    constexpr int32_t n = 12;
    ForwardRequest    request;
    request.tokens.resize(n);
    std::iota(request.tokens.begin(), request.tokens.end(), 1);
    request.rows = {3, 7, n - 1};
    for (OutputKind output : {OutputKind::logits, OutputKind::summary}) {
        request.output = output;
        request.kv     = KvUse::none;
        check_pass(context, request, device);
        request.kv = KvUse::store;
        check_pass(context, request, device);

        ForwardRequest step = request;
        step.tokens         = {5};
        step.positions      = {n - 1};
        step.rows           = {0};
        check_pass(context, step, device);
    }
}

std::vector<std::string> devices_of(const Context & context, const std::string & part) {
    std::set<std::string> devices;
    for (const PlacedWeight & weight : context.placed_weights()) {
        if (weight.name.find(part) != std::string::npos) {
            devices.insert(weight.device);
        }
    }
    return {devices.begin(), devices.end()};
}

} // namespace buoy::test
