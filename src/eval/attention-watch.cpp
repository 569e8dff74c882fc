#include "eval/attention-watch.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace buoy {

AttentionWatch::AttentionWatch(Context & context, const std::vector<int32_t> & prompt, std::vector<size_t> gold)
    : context_(context), gold_(std::move(gold)), sequence_(prompt) {}

void AttentionWatch::attach(GenerateParams & params) {
    params.on_forward = [this, next = std::move(params.on_forward)](int32_t step, ForwardRequest & request) {
        prepare(request);
        if (next) {
            next(step, request);
        }
    };
    params.on_step = [this, next = std::move(params.on_step)](const StepReport &           report,
                                                              const std::vector<int32_t> & tokens) {
        end_step(report, tokens);
        return !next || next(report, tokens);
    };
}

void AttentionWatch::prepare(ForwardRequest & request) {
    const ModelInfo &          info      = context_.info();
    const std::vector<int32_t> positions = request.positions; // generate() always gives them
    const auto                 n         = static_cast<size_t>(positions.back()) + 1;
    kv_                                  = request.kv;
    block_length_                        = request.block_length;
    seen_                                = sequence_;
    // a block-causal or causal model has not looked at what lies behind the pass
    seen_.resize(info.traits.attention == AttentionKind::full ? std::max(n, seen_.size()) : n);
    for (size_t i = 0; i < positions.size(); i++) {
        seen_[static_cast<size_t>(positions[i])] = request.tokens[i];
    }
    std::vector<int32_t> rows = request.rows;
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    rows_.clear();
    for (const int32_t row : rows) {
        rows_.push_back(positions[static_cast<size_t>(row)]);
    }
    looks_.assign(static_cast<size_t>(info.n_layer), {});
    forget_edits(positions);
    Observer & observer = request.observers.emplace_back();
    observer.edited     = [this, positions](AttentionEdit edit) {
        edit.queries = edit.queries.empty() ? positions : edit.queries;
        edits_.push_back(std::move(edit));
    };
    if (rows.empty()) {
        return;
    }
    for (int32_t layer = 0; layer < info.n_layer; layer++) {
        observer.taps.push_back({Tap::pattern, layer, TapReduce::none});
    }
    observer.selection.rows = std::move(rows);
    observer.sink           = [this](const TapEvent & event) { take(event); };
}

// Edits count for the rows of their pass until a later one computes them again.
void AttentionWatch::forget_edits(const std::vector<int32_t> & positions) {
    for (AttentionEdit & edit : edits_) {
        std::vector<int32_t> left;
        std::set_difference(edit.queries.begin(), edit.queries.end(), positions.begin(), positions.end(),
                            std::back_inserter(left));
        edit.queries = std::move(left);
    }
    edits_.erase(
        std::remove_if(edits_.begin(), edits_.end(), [](const AttentionEdit & e) { return e.queries.empty(); }),
        edits_.end());
}

void AttentionWatch::take(const TapEvent & event) {
    const auto          n_rows = static_cast<size_t>(event.shape[0] * event.shape[1]); // heads and rows
    const auto          K      = static_cast<size_t>(event.shape[2]);
    std::vector<Look> & looks  = looks_[static_cast<size_t>(event.point.layer)];
    for (size_t row = 0; row < n_rows; row++) {
        const float * keys = event.data + row * K;
        Look          look;
        look.most = static_cast<size_t>(std::max_element(keys, keys + K) - keys);
        for (const size_t key : gold_) {
            look.gold += key < K ? static_cast<double>(keys[key]) : 0.0;
        }
        looks.push_back(look);
    }
}

void AttentionWatch::end_step(const StepReport & report, const std::vector<int32_t> & tokens) {
    const int32_t shift = context_.info().traits.shift ? 1 : 0;
    for (const auto & [position, id] : report.committed) {
        const auto at    = std::lower_bound(rows_.begin(), rows_.end(), std::max(position - shift, 0));
        const auto where = static_cast<size_t>(position);
        const bool again =
            std::any_of(written_.begin(), written_.end(), [=](const Written & w) { return w.position == where; });
        if (again || at == rows_.end() || *at != std::max(position - shift, 0)) {
            continue;
        }
        Written one{where, {}};
        for (const std::vector<Look> & layer : looks_) {
            std::vector<Look> & heads = one.looks.emplace_back();
            for (auto i = static_cast<size_t>(at - rows_.begin()); i < layer.size(); i += rows_.size()) {
                heads.push_back(layer[i]);
            }
        }
        written_.push_back(std::move(one));
    }
    sequence_ = tokens;
}

AttentionWatch::Finished AttentionWatch::finish(const std::vector<std::vector<int32_t>> & regions) {
    const ModelInfo & info = context_.info();
    Finished          out;
    out.received.resize(static_cast<size_t>(info.n_layer));
    out.regions.resize(static_cast<size_t>(info.n_layer));
    ForwardRequest request;
    Observer       observer;
    request.tokens = seen_;
    request.positions.resize(seen_.size());
    std::iota(request.positions.begin(), request.positions.end(), 0);
    request.output             = OutputKind::none;
    request.kv                 = kv_;
    request.block_length       = block_length_;
    request.edits              = edits_;
    observer.selection.regions = regions;
    for (int32_t layer = 0; layer < info.n_layer; layer++) {
        observer.taps.push_back({Tap::pattern, layer, TapReduce::received});
        if (!regions.empty()) {
            observer.taps.push_back({Tap::pattern, layer, TapReduce::regions});
        }
    }
    observer.sink = [&](const TapEvent & event) {
        const auto            layer = static_cast<size_t>(event.point.layer);
        const auto            H     = static_cast<size_t>(event.shape[0]);
        const auto            n     = static_cast<size_t>(event.shape[1] * event.shape[2]);
        std::vector<double> & values =
            event.point.reduce == TapReduce::received ? out.received[layer] : out.regions[layer];
        values.assign(n, 0.0);
        for (size_t i = 0; i < H * n; i++) {
            values[i % n] += static_cast<double>(event.data[i]) / static_cast<double>(H);
        }
    };
    request.observers.push_back(std::move(observer));
    if (kv_ == KvUse::store) {
        context_.kv_truncate(0, 0);
    }
    context_.forward(request);
    return out;
}

} // namespace buoy
