#include "serve/attention-run.h"

#include "buoy/regions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy::serve {

namespace {

constexpr float anchor_epsilon = 3.0f; // standard deviations above the mean, as the edits' `sinks` have it

// Five digits: what a picture can show, in a quarter of the text.
Json rounded(std::span<const float> values) {
    Json list = Json::array();
    for (const float value : values) {
        list.push_back(std::round(static_cast<double>(value) * 1e5) / 1e5);
    }
    return list;
}

std::vector<float> mean_over_heads(const AttentionFrame::Layer & layer) {
    const auto         n_head = static_cast<size_t>(layer.n_head);
    const size_t       n_keys = layer.received.size() / n_head;
    std::vector<float> mean(n_keys, 0.0f);
    for (size_t i = 0; i < layer.received.size(); i++) {
        mean[i % n_keys] += layer.received[i] / static_cast<float>(n_head);
    }
    return mean;
}

std::vector<int32_t> anchors_of(const std::vector<float> & received, size_t n_head) {
    std::vector<int32_t> anchors;
    for (const size_t at : find_sinks(received.data(), n_head, received.size() / n_head, anchor_epsilon)) {
        anchors.push_back(static_cast<int32_t>(at));
    }
    return anchors;
}

std::vector<int32_t> resolved(const char * where, const IndexRanges & ranges, const char * what, int32_t count) {
    std::vector<int32_t> indices = resolve_ranges(where, ranges, what, count);
    if (indices.empty()) {
        indices.resize(static_cast<size_t>(count));
        std::iota(indices.begin(), indices.end(), 0);
    }
    return indices;
}

} // namespace

Json attention_json(const AttentionFrame & frame, AttentionDetail detail) {
    Json json = {{"received", rounded(frame.received)}, {"anchors", frame.anchors}};
    if (detail == AttentionDetail::mean) {
        return json;
    }
    Json layers = Json::array();
    for (const AttentionFrame::Layer & layer : frame.layers) {
        Json one = {{"layer", layer.layer}, {"received", rounded(mean_over_heads(layer))}, {"anchors", layer.anchors}};
        if (detail == AttentionDetail::heads) {
            Json         heads  = Json::array();
            const size_t n_keys = layer.received.size() / static_cast<size_t>(layer.n_head);
            for (size_t at = 0; at < layer.received.size(); at += n_keys) {
                heads.push_back(rounded(std::span(layer.received).subspan(at, n_keys)));
            }
            one["heads"] = std::move(heads);
        }
        layers.push_back(std::move(one));
    }
    json["layers"] = std::move(layers);
    return json;
}

AttentionRun::AttentionRun(const ServedModel & model, const AttentionRequest & asked, const Prompt & prompt,
                           const GenerateParams & params, int32_t n_steps, Runs & runs)
    : runs_(runs), in_frames_(asked.in_frames) {
    const auto                n_all = static_cast<int32_t>(prompt.tokens.size()) + params.n_predict;
    const std::vector<Region> regions =
        make_regions({}, model.vocab, {prompt.tokens, params.n_predict, prompt.messages});
    if (in_frames_) {
        layers_ = resolved("attention.layers", asked.layers, "layer", model.info.n_layer);
        heads_  = resolve_ranges("attention.heads", asked.heads, "head", model.info.n_head);
        steps_  = resolve_ranges("attention.steps", asked.steps, "step", n_steps);
    }
    if (!asked.edits.empty()) {
        check_can_edit(model.model);
        editor_ = std::make_unique<AttentionEditor>(asked.edits, model.info, regions, n_all, n_steps);
    }
    if (asked.records) {
        run_id_ = runs_.reserve(asked.run_id);
        try {
            make_recorder(model, asked, prompt, params, n_steps, regions);
        } catch (...) {
            runs_.release(run_id_);
            throw;
        }
    }
}

AttentionRun::~AttentionRun() {
    recorder_.reset();
    if (!run_id_.empty()) {
        runs_.release(run_id_);
    }
}

void AttentionRun::make_recorder(const ServedModel & model, const AttentionRequest & asked, const Prompt & prompt,
                                 const GenerateParams & params, int32_t n_steps, const std::vector<Region> & regions) {
    const auto   n_all  = static_cast<int32_t>(prompt.tokens.size()) + params.n_predict;
    RecordParams record = asked.record;
    record.path         = runs_.path(run_id_);
    record.layers       = resolve_ranges("record.layers", asked.record_layers, "layer", model.info.n_layer);
    record.heads        = resolve_ranges("record.heads", asked.record_heads, "head", model.info.n_head);
    record.steps        = resolve_ranges("record.steps", asked.record_steps, "step", n_steps);
    record.rows         = resolve_ranges("record.rows", asked.record_rows, "position", n_all);
    record.regions      = regions;
    record.max_size     = runs_.room();
    RecordedRun run;
    run.prompt        = model.vocab.decode(prompt.tokens, true);
    run.prompt_tokens = prompt.tokens;
    run.context       = model.context;
    run.generate      = params;
    for (const EditSpec & edit : asked.edits) {
        run.edits.push_back(edit.text);
    }
    recorder_ = std::make_unique<Recorder>(record, model.info, model.vocab, run);
    runs_.set_aside(run_id_, recorder_->predicted_size());
}

void AttentionRun::attach(GenerateParams & params) {
    if (in_frames_) {
        params.on_forward = [this](int32_t step, ForwardRequest & request) { watch(step, request); };
    }
    if (editor_) {
        editor_->attach(params);
    }
    if (recorder_) {
        recorder_->attach(params);
    }
}

void AttentionRun::watch(int32_t step, ForwardRequest & request) {
    frame_.reset();
    if (!steps_.empty() && !std::binary_search(steps_.begin(), steps_.end(), step)) {
        return;
    }
    frame_.emplace();
    Observer observer;
    for (const int32_t layer : layers_) {
        observer.taps.push_back({Tap::pattern, layer, TapReduce::received});
    }
    observer.selection.heads = heads_;
    observer.sink            = [this](const TapEvent & event) { take(event); };
    request.observers.push_back(std::move(observer));
}

void AttentionRun::take(const TapEvent & event) {
    AttentionFrame::Layer layer;
    layer.layer  = event.point.layer;
    layer.n_head = static_cast<int32_t>(event.shape[0]);
    layer.received.assign(event.data, event.data + event.shape[0] * event.shape[1] * event.shape[2]);
    layer.anchors = anchors_of(layer.received, static_cast<size_t>(layer.n_head));
    frame_->layers.push_back(std::move(layer));
}

std::optional<AttentionFrame> AttentionRun::take_frame() {
    if (!frame_ || frame_->layers.empty()) {
        return {};
    }
    AttentionFrame frame = std::move(*frame_);
    frame_.reset();
    for (const AttentionFrame::Layer & layer : frame.layers) {
        const std::vector<float> mean = mean_over_heads(layer);
        frame.received.resize(mean.size(), 0.0f);
        for (size_t i = 0; i < mean.size(); i++) {
            frame.received[i] += mean[i] / static_cast<float>(frame.layers.size());
        }
    }
    frame.anchors = anchors_of(frame.received, 1);
    return frame;
}

void AttentionRun::finish() {
    if (recorder_) {
        recorder_->finish();
        recorder_.reset();
        runs_.release(run_id_);
    }
}

Json AttentionRun::edit_json() const {
    if (!editor_) {
        return nullptr;
    }
    Json specs = Json::array(), applied = Json::array();
    for (size_t i = 0; i < editor_->specs().size(); i++) {
        const EditUse & use = editor_->uses()[i];
        specs.push_back(editor_->specs()[i].text);
        applied.push_back(
            {{"places", use.n_places},
             {"keys_mean", use.n_places > 0 ? Json(static_cast<double>(use.n_keys) / static_cast<double>(use.n_places))
                                            : Json(nullptr)}});
    }
    return {{"specs", std::move(specs)}, {"applied", std::move(applied)}};
}

} // namespace buoy::serve
