#include "attn-run.h"

#include "buoy/regions.h"
#include "buoy/step-count.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

namespace {

// run.npz, run-2.npz, run-3.npz
std::string numbered(const std::string & path, int number) {
    if (number == 1) {
        return path;
    }
    const std::filesystem::path whole(path);
    return (whole.parent_path() / (whole.stem().string() + "-" + std::to_string(number) + whole.extension().string()))
        .string();
}

// The settings with which the answer is generated, its length known.
buoy::GenerateParams resolved_params(const Session & session, const Prompt & prompt) {
    buoy::GenerateParams params = session.params.generate;
    params.n_predict =
        session.params.logits_out.empty()
            ? buoy::answer_length(params, prompt.tokens.size(), session.context.n_ctx(), session.context.info())
            : static_cast<int32_t>(session.params.canvas.size());
    return params;
}

int32_t step_bound(const Session & session, const Prompt & prompt, const buoy::GenerateParams & params) {
    if (!session.params.logits_out.empty()) {
        return 1;
    }
    const int64_t n = buoy::step_count_max(session.context.info(), prompt.tokens, params);
    return static_cast<int32_t>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max()));
}

} // namespace

AttnRun::AttnRun(const Session & session, const Console & console, const Prompt & prompt, int number)
    : console_(console) {
    const AttnParams & attn = session.params.attn;
    if (!attn.is_used()) {
        return;
    }
    const buoy::ModelInfo &       info   = session.context.info();
    const buoy::GenerateParams    params = resolved_params(session, prompt);
    const auto                    n_all  = static_cast<int32_t>(prompt.tokens.size()) + params.n_predict;
    const int32_t                 n_step = step_bound(session, prompt, params);
    const buoy::RegionSource      source = {prompt.tokens, params.n_predict, prompt.messages};
    std::vector<buoy::RegionSpec> specs;
    if (!attn.regions.empty()) {
        specs = buoy::load_regions(attn.regions);
    }
    const std::vector<buoy::Region> regions = buoy::make_regions(specs, session.vocab, source);
    if (!attn.edits.empty()) {
        editor_ = std::make_unique<buoy::AttentionEditor>(attn.edits, info, regions, n_all, n_step);
    }
    if (attn.record.path.empty()) {
        return;
    }
    buoy::RecordParams record = attn.record;
    record.path               = numbered(attn.record.path, number);
    record.layers             = buoy::resolve_ranges("--attn-layers", attn.layers, "layer", info.n_layer);
    record.heads              = buoy::resolve_ranges("--attn-heads", attn.heads, "head", info.n_head);
    record.steps              = buoy::resolve_ranges("--attn-steps", attn.steps, "step", n_step);
    record.rows               = buoy::resolve_ranges("--attn-rows", attn.rows, "position", n_all);
    record.regions            = regions;
    record.log = [&console](buoy::LogLevel level, const std::string & text) { console.log(level, text); };

    buoy::RecordedRun run;
    run.prompt        = session.vocab.decode(prompt.tokens, true);
    run.prompt_tokens = prompt.tokens;
    run.context       = session.params.context;
    run.generate      = params;
    run.single_pass   = !session.params.logits_out.empty();
    run.canvas        = session.params.canvas;
    for (const buoy::EditSpec & edit : attn.edits) {
        run.edits.push_back(edit.text);
    }
    path_     = record.path;
    recorder_ = std::make_unique<buoy::Recorder>(record, info, session.vocab, run);
    console_.log(buoy::LogLevel::notice,
                 buoy::concat("recording at most ", buoy::size_text(recorder_->predicted_size()), " to ",
                              buoy::printable(path_)));
}

AttnRun::~AttnRun() {
    try {
        if (recorder_) {
            recorder_->finish(); // once more does nothing
        }
    } catch (const std::exception &) { // the error that led here is the one to tell
    }
}

Attach AttnRun::attach() const {
    return [this](buoy::GenerateParams & params) {
        if (editor_) {
            editor_->attach(params);
        }
        if (recorder_) {
            recorder_->attach(params);
        }
    };
}

void AttnRun::prepare_pass(buoy::ForwardRequest & request) const {
    if (editor_) {
        editor_->prepare(0, request);
    }
    if (recorder_) {
        recorder_->prepare(0, request);
    }
}

void AttnRun::finish(size_t n_steps) {
    if (recorder_) {
        recorder_->finish();
        std::error_code missing; // a run that was stopped before its first step leaves none
        const auto      bytes = std::filesystem::file_size(path_, missing);
        recording_ = {{"path", path_}, {"bytes", missing ? 0 : static_cast<uint64_t>(bytes)}, {"steps", n_steps}};
    }
    tell_unused();
}

void AttnRun::finish_pass(const std::vector<int32_t> & tokens) {
    if (recorder_) {
        recorder_->end_step({}, tokens);
    }
    finish(1);
}

void AttnRun::tell_unused() const {
    for (size_t i = 0; editor_ && i < editor_->specs().size(); i++) {
        if (editor_->uses()[i].n_places == 0) {
            const buoy::EditSpec & spec = editor_->specs()[i];
            console_.log(buoy::LogLevel::notice,
                         buoy::concat("the edit ", buoy::in_quotes(spec.text), " changed nothing",
                                      spec.bias == 0.0f ? "" : ": its keys matched nothing in any step"));
        }
    }
}

nlohmann::ordered_json AttnRun::recording_json() const { return recording_; }

nlohmann::ordered_json AttnRun::edit_json() const {
    if (!editor_) {
        return nullptr;
    }
    nlohmann::ordered_json specs = nlohmann::ordered_json::array(), applied = specs;
    for (size_t i = 0; i < editor_->specs().size(); i++) {
        const buoy::EditUse & use = editor_->uses()[i];
        specs.push_back(editor_->specs()[i].text);
        applied.push_back({{"places", use.n_places},
                           {"keys_mean", use.n_places > 0 ? nlohmann::ordered_json(static_cast<double>(use.n_keys) /
                                                                                   static_cast<double>(use.n_places))
                                                          : nlohmann::ordered_json(nullptr)}});
    }
    return {{"specs", specs}, {"applied", applied}};
}

Compared compare_answers(const Answer & unedited, const Answer & edited) {
    const buoy::EditComparison c    = buoy::compare_runs(unedited.generation, edited.generation);
    const bool                 same = unedited.text == edited.text;
    nlohmann::ordered_json     confidence;
    if (c.n_scored > 0) {
        confidence = {{"unedited_mean", c.confidence_unedited},
                      {"edited_mean", c.confidence_edited},
                      {"mean_abs_change", c.confidence_change},
                      {"scored", c.n_scored}};
    }
    Compared out;
    out.json = {{"unedited", {{"text", unedited.text}, {"tokens", unedited.generation.tokens}}},
                {"changed_tokens", c.n_changed},
                {"first_changed_position", c.n_changed > 0 ? nlohmann::ordered_json(c.first_changed) : nullptr},
                {"same_text", same},
                {"confidence", confidence}};
    char text[400];
    std::snprintf(
        text, sizeof(text),
        "mean confidence %.4f without them, %.4f with them (mean absolute change %.4f; over the %lld pairs of step and "
        "position that both runs scored)",
        c.confidence_unedited, c.confidence_edited, c.confidence_change, static_cast<long long>(c.n_scored));
    out.line = c.n_changed == 0
                   ? buoy::concat("the edits changed no token; ", text)
                   : buoy::concat("the edits changed ", c.n_changed,
                                  c.n_changed == 1 ? " token, at position " : " tokens, the first at position ",
                                  c.first_changed, "; ", same ? "the text is the same; " : "", text);
    return out;
}
