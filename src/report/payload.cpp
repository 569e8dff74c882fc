#include "report/payload.h"

#include "analysis/labels.h"
#include "base/base64.h"
#include "buoy/message.h"
#include "buoy/names.h"
#include "report/matrix-pack.h"
#include "report/sequence-json.h"

#include <algorithm>
#include <limits>

namespace buoy::report {

namespace {

using analysis::Array;
using analysis::Json;
using analysis::Recording;

// base64 takes four characters for three bytes
uint64_t encoded(uint64_t bytes) { return bytes / 3 * 4 + (bytes % 3 != 0 ? 4 : 0); }

size_t heads_of(const Recording & recording, const PageShape & shape) {
    const bool has_heads = shape.reduce == TapReduce::none || shape.reduce == TapReduce::received;
    return has_heads && !shape.steps.empty()
               ? recording.read(Tap::pattern, shape.steps.front(), shape.layers.front()).shape[0]
               : 1;
}

PackedMatrix pack_one(const Recording & recording, int32_t step, int32_t layer, const PagePlan & plan) {
    Array array = recording.read(Tap::pattern, step, layer);
    switch (recording.reduce()) {
        case TapReduce::received: return pack_received(std::move(array), plan.heads, plan.pool);
        case TapReduce::regions: return pack_regions(array);
        default: return pack_rows(std::move(array), recording.rows(step), plan.heads, plan.pool);
    }
}

std::string count_text(size_t n, const std::string & noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::vector<std::string> what_was_reduced(const PageShape & shape, const PagePlan & plan) {
    std::vector<std::string> out;
    if (shape.steps.empty()) {
        return out;
    }
    if (shape.n_heads > 1 && !plan.heads) {
        out.push_back("Heads are averaged: the mean over " + count_text(shape.n_heads, "head") + ".");
    }
    if (plan.steps.size() < shape.steps.size()) {
        out.push_back("Attention is shown for " + count_text(plan.steps.size(), "step") + " out of " +
                      std::to_string(shape.steps.size()) + "; the text has every step.");
    }
    if (plan.layers.size() < shape.layers.size()) {
        out.push_back("Attention is shown for " + count_text(plan.layers.size(), "layer") + " out of " +
                      std::to_string(shape.layers.size()) + ".");
    }
    if (plan.pool > 1) {
        out.push_back("Every " + std::to_string(plan.pool) +
                      " neighbouring positions are pooled: the mean of their rows, the sum of their columns.");
    }
    return out;
}

Json head_numbers(const Recording & recording, const PageShape & shape, const PagePlan & plan) {
    if (!plan.heads || shape.n_heads == 1) {
        return nullptr;
    }
    const Json & chosen = analysis::meta_of(recording)["recorded"].value("heads", Json());
    Json         out    = Json::array();
    for (size_t h = 0; h < shape.n_heads; h++) {
        const bool listed = chosen.is_array() && h < chosen.size() && chosen[h].is_number_integer();
        out.push_back(listed ? chosen[h] : Json(h));
    }
    return out;
}

// Consecutive ones as first and last.
Json ranges(const std::vector<int32_t> & numbers) {
    Json out = Json::array();
    for (size_t i = 0; i < numbers.size();) {
        size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
            last++;
        }
        out.push_back({numbers[i], numbers[last]});
        i = last + 1;
    }
    return out;
}

} // namespace

PageShape page_shape(const Recording & recording) {
    PageShape shape;
    shape.reduce      = recording.reduce();
    shape.n_positions = recording.n_positions();
    shape.n_regions   = recording.regions().size();
    shape.layers      = recording.layers();
    for (int32_t step : recording.steps()) {
        if (recording.has(Tap::pattern) && !recording.rows(step).empty()) {
            shape.steps.push_back(step);
            shape.n_rows.push_back(recording.rows(step).size());
        }
    }
    shape.n_heads = heads_of(recording, shape);
    return shape;
}

uint64_t payload_size(const Recording & recording) {
    return encoded(plan_page(page_shape(recording), std::numeric_limits<uint64_t>::max()).size);
}

Payload make_payload(const Recording & recording, const std::string & label, uint64_t size_max) {
    const PageShape shape = page_shape(recording);
    const PagePlan  plan  = plan_page(shape, size_max / 4 * 3);
    Payload         out;
    Json            steps = Json::array(), index = Json::array();
    for (int32_t step : plan.steps) {
        std::vector<int32_t> rows;
        for (int32_t layer : plan.layers) {
            PackedMatrix matrix = pack_one(recording, step, layer, plan);
            if (matrix.H > (plan.heads ? shape.n_heads : 1)) {
                fail(printable(recording.path()), ": layer ", layer, " of step ", step, " has ", matrix.H, " heads, ",
                     shape.n_heads, " were expected");
            }
            index.push_back({out.matrices.size(), matrix.H, matrix.Q, matrix.K});
            out.matrices += base64(matrix.bytes);
            rows = std::move(matrix.rows);
        }
        steps.push_back({{"step", step}, {"rows", ranges(rows)}});
    }
    out.reduced         = what_was_reduced(shape, plan);
    out.json            = sequence_json(recording, size_max);
    out.json["label"]   = label;
    out.json["file"]    = analysis::base_name(recording.path());
    out.json["reduce"]  = recording.has(Tap::pattern) ? Json(name_of(reduce_names, recording.reduce())) : Json(nullptr);
    out.json["heads"]   = head_numbers(recording, shape, plan);
    out.json["n_heads"] = shape.n_heads;
    out.json["steps"]   = std::move(steps);
    out.json["layers"]  = plan.layers;
    out.json["pool"]    = plan.pool;
    out.json["matrices"] = std::move(index);
    out.json["reduced"]  = out.reduced;
    return out;
}

} // namespace buoy::report
