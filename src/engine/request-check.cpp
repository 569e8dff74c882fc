#include "engine/request-check.h"

#include "buoy/message.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

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

void check_layer(const char * what, int32_t layer, const ModelInfo & info) {
    if (layer < 0 || layer >= info.n_layer) {
        fail("layer ", layer, " ", what, ", the model has layers 0 to ", info.n_layer - 1);
    }
}

void check_observer(const Observer & observer, const ModelInfo & info, size_t n_tokens) {
    if (!observer.taps.empty() && !observer.sink) {
        fail("the request has taps but no sink to receive them");
    }
    for (const TapPoint & point : observer.taps) {
        check_layer("does not exist", point.layer, info);
        if (point.reduce == TapReduce::regions && observer.selection.regions.empty()) {
            fail(tap_name(point.tap, point.layer), " should be reduced to regions, but no regions are given");
        }
    }
    if (!observer.taps.empty()) {
        check_indices("head", observer.selection.heads, static_cast<size_t>(info.n_head));
        check_indices("row", observer.selection.rows, n_tokens);
    }
    for (const int32_t layer : observer.probed) {
        check_layer("cannot be edited", layer, info);
        if (!observer.probe) {
            fail("layer ", layer, " should be probed, but no probe is given");
        }
    }
}

void check_shadow(const ForwardRequest & request) {
    const auto T = static_cast<int64_t>(request.tokens.size());
    if (request.n_shadow == 0) {
        return;
    }
    if (request.n_shadow < 0 || request.n_shadow >= T || request.positions.empty()) {
        fail("a shadow of ", request.n_shadow, " tokens needs a sequence before it and positions, the pass has ", T,
             " tokens and ", request.positions.size(), " positions");
    }
    if (request.kv != KvUse::none) {
        fail("a shadow can't be stored");
    }
}

void check_tokens(const ForwardRequest & request, const ModelInfo & info, int32_t n_ctx) {
    const size_t T = request.tokens.size();
    if (T == 0 || T > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2)) {
        fail("a forward pass got ", T, " tokens, expected 1 to 2^30");
    }
    for (const int32_t id : request.tokens) {
        if (id < 0 || id >= info.n_vocab) {
            fail("token id ", id, " is outside the model's vocabulary of ", info.n_vocab);
        }
    }
    if (!request.positions.empty() && request.positions.size() != T) {
        fail("a forward pass got ", request.positions.size(), " positions for ", T, " tokens");
    }
    check_shadow(request);
    int32_t      previous = -1;
    const size_t n_own    = T - static_cast<size_t>(request.n_shadow); // the shadow's begin anew
    for (size_t i = 0; i < request.positions.size(); i++) {
        const int32_t position = request.positions[i];
        previous               = i == n_own ? -1 : previous;
        if (position <= previous) {
            fail("position ", position, " follows ", previous, ", expected strictly increasing positions from 0");
        }
        previous = position;
    }
    const int64_t last = request.positions.empty() ? static_cast<int64_t>(T) - 1 : request.positions.back();
    if (request.kv == KvUse::store && last >= n_ctx) {
        fail("position ", last, " does not fit into the context of ", n_ctx, " (`n_ctx`)");
    }
    if (request.block_length < 0) {
        fail("the block length is ", request.block_length, ", expected 0 (the model's) or more");
    }
    for (const int32_t row : request.rows) {
        if (row < 0 || static_cast<size_t>(row) >= T) {
            fail("output row ", row, " is outside the ", T, " tokens given");
        }
    }
    if (!request.extra.empty() && request.extra.size() != T * static_cast<size_t>(info.n_embd)) {
        fail("the extra input has ", request.extra.size(), " numbers, expected ", info.n_embd, " for each of ", T,
             " tokens");
    }
}

void check_canvas(const ForwardRequest & request, const ModelInfo & info, int32_t n_sequences) {
    const size_t T = request.tokens.size(), R = request.rows.size();
    if (!request.condition && !request.keep_logits && !request.draw) {
        return;
    }
    const auto positive = [](float value) { return value > 0.0f && value <= 1e6f; };
    if (request.sequence < 0 || request.sequence >= n_sequences) {
        fail("sequence ", request.sequence, " has no logits, the context has sequences 0 to ", n_sequences - 1);
    }
    if (request.condition) {
        const size_t n = request.condition->logits.size();
        if (n != 0 && n != T * static_cast<size_t>(info.n_vocab)) {
            fail("the condition has ", n, " logits, expected ", info.n_vocab, " for each of ", T, " tokens");
        }
    }
    if (request.keep_logits &&
        (R != T || !std::is_sorted(request.rows.begin(), request.rows.end()) || request.output == OutputKind::none)) {
        fail("logits are kept of all ", T, " tokens in their order, but ", R, " rows are asked for");
    }
    if (request.draw && (request.draw->uniform.size() != R || request.output != OutputKind::summary)) {
        fail("a pass that draws tokens needs summaries and a number for each of ", R, " rows, found ",
             request.draw->uniform.size());
    }
    if (!positive(request.condition ? request.condition->temperature : 1.0f) ||
        !positive(request.draw ? request.draw->temperature : 1.0f)) {
        fail("a temperature of a canvas is not above 0 and at most 1e+06");
    }
}

// Passes that choose what they compute.
void check_partial(const ForwardRequest & request, size_t n_sequences) {
    if (!request.refresh && !request.reset) {
        return;
    }
    const auto T = static_cast<int32_t>(request.tokens.size());
    if (n_sequences > 1 || request.kv != KvUse::store || (request.refresh && request.reset)) {
        fail("a pass that chooses what it computes (adaptive caches) needs a store and is computed alone");
    }
    if (request.refresh) {
        const PartialRefresh & r     = *request.refresh;
        const bool             whole = request.positions.empty() || request.positions.back() == T - 1;
        if (!whole || r.n_prompt < 0 || r.n_prompt >= T || r.n_drifted < 0 || r.n_drifted > T - r.n_prompt) {
            fail("a partial refresh is about all positions of a sequence: found ", T, " tokens, a prompt of ",
                 r.n_prompt, " and ", r.n_drifted, " drifted positions");
        }
        return;
    }
    const std::vector<int32_t> positions = positions_of(request);
    for (const int32_t position : request.reset->track) {
        if (!std::binary_search(positions.begin(), positions.end(), position)) {
            fail("position ", position, " is tracked, but not among those given");
        }
    }
}

void check_guidance(std::span<const ForwardRequest> batch, size_t index) {
    const ForwardRequest & request = batch[index];
    const size_t           other   = request.guidance->unconditional;
    if (other <= index || other >= batch.size()) {
        fail("classifier-free guidance needs its unconditional sequence later in the same pass, found index ", other,
             " for sequence ", index, " of ", batch.size());
    }
    if (batch[other].guidance || batch[other].tokens.size() != request.tokens.size() ||
        batch[other].rows.size() != request.rows.size() || positions_of(batch[other]) != positions_of(request) ||
        batch[other].kv != request.kv) {
        fail("classifier-free guidance needs two sequences of the same positions and rows");
    }
}

} // namespace

int32_t choose_n_ctx(const ContextParams & params, int32_t n_ctx_train, int32_t block_length) {
    constexpr int32_t default_max = 4096;
    if (params.n_ctx < -1) {
        fail("the context length is ", params.n_ctx, ", expected -1 (the model's), 0 (that, at most ", default_max,
             ") or more");
    }
    const int64_t n_ctx = params.n_ctx > 0    ? params.n_ctx
                          : params.n_ctx == 0 ? std::clamp(n_ctx_train, 1, default_max)
                                              : std::max(n_ctx_train, 1);
    const int64_t B     = std::max(block_length, 1);
    return static_cast<int32_t>(std::min<int64_t>((n_ctx + B - 1) / B * B, std::numeric_limits<int32_t>::max()));
}

void check_requests(std::span<const ForwardRequest> batch, const ModelInfo & info, int32_t n_ctx, int32_t n_sequences) {
    if (batch.empty()) {
        fail("a forward pass got no sequence");
    }
    std::set<int32_t> stored;
    for (size_t i = 0; i < batch.size(); i++) {
        const ForwardRequest & request = batch[i];
        check_tokens(request, info, n_ctx);
        if (request.kv == KvUse::store && (request.sequence < 0 || request.sequence >= n_sequences)) {
            fail("sequence ", request.sequence, " cannot be stored, the context has sequences 0 to ", n_sequences - 1);
        }
        if (request.kv == KvUse::store && !stored.insert(request.sequence).second) {
            fail("sequence ", request.sequence, " is stored twice in one pass");
        }
        for (const AttentionEdit & edit : request.edits) {
            check_layer("cannot be edited", edit.layer, info);
        }
        for (const Observer & observer : request.observers) {
            check_observer(observer, info, request.tokens.size());
        }
        check_canvas(request, info, n_sequences);
        check_partial(request, batch.size());
        if (request.guidance) {
            check_guidance(batch, i);
        }
    }
}

std::vector<int32_t> positions_of(const ForwardRequest & request) {
    std::vector<int32_t> positions = request.positions;
    if (positions.empty()) {
        positions.resize(request.tokens.size());
        std::iota(positions.begin(), positions.end(), 0);
    }
    return positions;
}

std::vector<int32_t> all_if_empty(std::vector<int32_t> chosen, int64_t n) {
    if (chosen.empty()) {
        chosen.resize(static_cast<size_t>(n));
        std::iota(chosen.begin(), chosen.end(), 0);
    }
    return chosen;
}

} // namespace buoy
