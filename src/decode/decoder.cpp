#include "decode/decoder.h"

#include "buoy/message.h"
#include "buoy/preset.h"
#include "decode/selection.h"

#include <algorithm>
#include <numeric>

namespace buoy {

namespace {

GenerateParams resolved(const ModelInfo & info, int32_t n_ctx, size_t n_prompt, const GenerateParams & asked) {
    check_params(asked, info);
    GenerateParams params = apply_preset(asked, info).params;
    params.n_predict      = answer_length(asked, n_prompt, n_ctx, info);
    return params;
}

ConfidenceOf confidence_of(const Traits & traits) {
    return traits.shift || !traits.is_diffusion() ? ConfidenceOf::sampling : ConfidenceOf::model;
}

} // namespace

Decoder::Decoder(const Context & context, const DecoderPlace & place, const std::vector<int32_t> & prompt,
                 const GenerateParams & params, std::span<const int32_t> stored, ScheduleMaker make)
    : info_(context.info()), place_(place), params_(resolved(info_, context.n_ctx(), prompt.size(), params)),
      settings_(resolve_settings(info_, params_)),
      choice_(params_, info_.traits.mask_id, confidence_of(info_.traits), context.params().n_threads),
      random_(params_.seed), own_rule_(make_rule(info_, settings_, params_)),
      output_(choice_.summary_is_enough() && !settings_.needs_logits && !(own_rule_ && own_rule_->needs_logits())
                  ? OutputKind::summary
                  : OutputKind::logits),
      canvas_(info_.traits, settings_, prompt, params_, context.n_ctx()) {
    const bool canvases = settings_.schedule == ScheduleKind::canvases;
    const bool grows    = settings_.schedule == ScheduleKind::autoregressive || canvases;
    if (grows && prompt.empty()) {
        fail("the prompt is empty, and ", canvases ? info_.arch : "an autoregressive model",
             " needs at least one token to continue");
    }
    if (canvases && params_.n_predict == 0) {
        fail("there is nothing to write: set `n_predict`; ", info_.arch,
             " has no masks, so it can't fill a text's gaps");
    }
    if (settings_.schedule == ScheduleKind::two_modes && canvas_.first() != static_cast<int32_t>(prompt.size())) {
        fail(info_.arch, " reads its prompt causally, so it can't fill masks inside it");
    }
    if (settings_.schedule == ScheduleKind::two_modes && prompt.empty()) {
        fail("the prompt is empty, and ", info_.arch, " needs at least one token to continue");
    }
    if (!grows && canvas_.first() == canvas_.end()) {
        fail("there is nothing to write: set `n_predict`, or give a prompt with masks to fill");
    }
    if (params_.cfg_scale == 0.0f) { // guidance hides the prompt, which is another one then
        canvas_.reuse(stored, settings_);
    }
    schedule_   = make(settings_, params_, canvas_);
    rule_       = schedule_->rule() != nullptr ? schedule_->rule() : own_rule_.get();
    out_.prompt = prompt;
}

void Decoder::begin(Context & context) const {
    context.kv_truncate(place_.sequence, canvas_.n_stored());
    if (params_.cfg_scale > 0.0f) {
        context.kv_truncate(place_.unconditional, 0);
    }
}

bool Decoder::next(std::vector<ForwardRequest> & batch) {
    while ((pass_ = schedule_->next(canvas_)) && pass_->kind == PassKind::pause) {
        commit(pass_->also, !pass_->also.empty());
    }
    if (!pass_) {
        return false;
    }
    if (rule_ != nullptr && pass_->kind == PassKind::step) {
        rule_->prepare(canvas_, *pass_);
    }
    ForwardRequest request = make_request();
    if (pass_->kind == PassKind::step && params_.on_forward) {
        params_.on_forward(step(), request);
    }
    if (params_.cfg_scale > 0.0f) {
        ForwardRequest unconditional = make_unconditional(request);
        request.guidance             = Guidance{batch.size() + 1, params_.cfg_scale};
        batch.push_back(std::move(request));
        batch.push_back(std::move(unconditional));
    } else {
        batch.push_back(std::move(request));
    }
    return true;
}

ForwardRequest Decoder::make_request() const {
    ForwardRequest request; // made anew: what an observer added was for one pass
    const int32_t  from = pass_->from, to = pass_->to;
    request.sequence     = place_.sequence;
    request.output       = output_;
    request.kv           = pass_->kv;
    request.attention    = pass_->attention;
    request.block_length = settings_.is_block_causal() ? settings_.block_length : 0;
    request.observers    = pass_->observers;
    request.refresh      = pass_->refresh;
    request.reset        = pass_->reset;
    request.condition    = pass_->condition;
    request.draw         = pass_->draw;
    request.keep_logits  = pass_->keep_logits;
    request.positions    = pass_->positions;
    if (request.positions.empty()) {
        request.positions.resize(static_cast<size_t>(to - from));
        std::iota(request.positions.begin(), request.positions.end(), from);
    }
    for (const int32_t position : request.positions) {
        request.tokens.push_back(canvas_.token(position));
    }
    for (int32_t position : pass_->asked) {
        // shifted models predict a token from the row before it; the first row stands in for itself
        const int32_t at  = pass_->shift.value_or(settings_.shift) ? std::max(position - 1, 0) : position;
        const auto    row = std::lower_bound(request.positions.begin(), request.positions.end(), at);
        request.rows.push_back(static_cast<int32_t>(row - request.positions.begin()));
    }
    add_shadow(request);
    return request;
}

void Decoder::add_shadow(ForwardRequest & request) const {
    const BlockSpan & shadow = pass_->shadow;
    request.n_shadow         = shadow.to - shadow.from;
    for (const int32_t position : pass_->shadow_rows) {
        request.rows.push_back(static_cast<int32_t>(request.tokens.size()) + position - shadow.from);
    }
    for (int32_t position = shadow.from; position < shadow.to; position++) {
        request.tokens.push_back(info_.traits.mask_id);
        request.positions.push_back(position);
    }
}

// What was given is hidden, what was generated stays.
ForwardRequest Decoder::make_unconditional(const ForwardRequest & request) const {
    ForwardRequest hidden = request;
    hidden.sequence       = place_.unconditional;
    hidden.edits.clear();
    hidden.observers.clear();
    for (size_t i = 0; i < hidden.tokens.size(); i++) {
        hidden.tokens[i] = canvas_.is_given(hidden.positions[i]) ? info_.traits.mask_id : hidden.tokens[i];
    }
    return hidden;
}

void Decoder::take(const ForwardResult & result) {
    out_.n_forward++;
    canvas_.set_stored(pass_->n_stored);
    if (pass_->in_prompt) {
        out_.prompt_ms = elapsed_ms();
    }
    if (pass_->kind == PassKind::store) {
        if (settings_.schedule == ScheduleKind::canvases) {
            out_.reads.emplace_back(pass_->from, pass_->to - pass_->from);
        }
        canvas_.write(pass_->also);
        if (params_.on_prompt && !params_.on_prompt(pass_->progress)) {
            canvas_.stop();
        }
        return;
    }
    std::vector<Candidate> candidates = choose(result);
    reset_layer_                      = result.reset_layer;
    refreshed_                        = result.refreshed;
    schedule_->see(rule_input(candidates, result));
    std::optional<Writes> decided = schedule_->decide(canvas_, candidates, result);
    const bool            one     = settings_.schedule == ScheduleKind::autoregressive;
    if (decided) {
        commit(*std::move(decided), true);
        return;
    }
    commit(tokens_of(one                ? candidates
                     : rule_ != nullptr ? select_by_rule(candidates, result)
                                        : select(std::move(candidates))),
           false);
}

std::vector<Candidate> Decoder::choose(const ForwardResult & result) {
    const std::vector<int32_t> & positions = pass_->asked;
    std::vector<Candidate>       candidates;
    if (output_ == OutputKind::logits) {
        candidates = choice_.choose(result.logits, info_.n_vocab, step(), positions);
    }
    for (const RowSummary & row : result.summaries) {
        candidates.push_back(choice_.choose(row));
    }
    for (size_t i = 0; i < positions.size(); i++) {
        candidates[i].position = positions[i];
        confidence_.emplace_back(positions[i], candidates[i].prob);
    }
    return candidates;
}

std::vector<Candidate> Decoder::select(std::vector<Candidate> candidates) const {
    std::erase_if(candidates, [&](const Candidate & c) { // asked about by a schedule that wants to know
        return c.position < pass_->span.from || c.position >= pass_->span.to;
    });
    const std::vector<Candidate> edits = take_edits(candidates);
    for (Candidate & c : candidates) {
        c.id = canvas_.is_masked(c.position) ? c.id : canvas_.token(c.position);
    }
    rank(candidates, settings_.order, params_, pass_->span, random_, step());
    std::erase_if(candidates, [&](const Candidate & c) { return !canvas_.is_masked(c.position); });
    candidates.resize(std::min(candidates.size(), static_cast<size_t>(pass_->limit)));
    const auto n = static_cast<size_t>(choose_count(candidates, settings_, params_, *pass_));
    candidates.resize(std::min(candidates.size(), n));
    candidates.insert(candidates.end(), edits.begin(), edits.end());
    return candidates;
}

std::vector<Candidate> Decoder::select_by_rule(const std::vector<Candidate> & candidates,
                                               const ForwardResult &          result) {
    std::vector<Candidate> written = rule_->select(rule_input(candidates, result));
    measured_                      = rule_->measured();
    return written;
}

RuleInput Decoder::rule_input(const std::vector<Candidate> & candidates, const ForwardResult & result) const {
    const auto n_threads = static_cast<int32_t>(choice_.thread_count(result.logits.size()));
    return {canvas_, *pass_, candidates, result, info_.n_vocab, n_threads};
}

// Moves what was written before out of the candidates; kept are other tokens that the model is sure of.
std::vector<Candidate> Decoder::take_edits(std::vector<Candidate> & candidates) const {
    std::vector<Candidate> edits;
    if (!params_.edit_threshold) {
        return edits;
    }
    const auto written = std::stable_partition(candidates.begin(), candidates.end(),
                                               [&](const Candidate & c) { return canvas_.is_masked(c.position); });
    std::copy_if(written, candidates.end(), std::back_inserter(edits), [&](const Candidate & c) {
        return c.id != canvas_.token(c.position) && c.prob > *params_.edit_threshold;
    });
    candidates.erase(written, candidates.end());
    return edits;
}

Writes Decoder::tokens_of(const std::vector<Candidate> & written) const {
    Writes tokens = pass_->also;
    for (const Candidate & c : written) {
        const auto same = [&](const auto & other) { return other.first == c.position; };
        if (std::none_of(pass_->also.begin(), pass_->also.end(), same)) {
            tokens.emplace_back(c.position, c.id);
        }
    }
    return tokens;
}

void Decoder::commit(Writes written, bool decided) {
    StepReport report;
    report.step       = step();
    report.block      = pass_->block;
    report.confidence = std::move(confidence_);
    report.committed  = std::move(written);
    report.measured   = std::move(measured_);
    report.attention  = pass_->attention;
    confidence_.clear();
    measured_.clear();
    if (pass_->kind == PassKind::step) {
        report.computed = pass_->positions;
        if (pass_->reset && !pass_->reset->track.empty()) {
            report.reset_layer = reset_layer_.value_or(-1);
        }
        if (pass_->refresh) {
            report.refreshed = std::move(refreshed_);
        }
    }
    std::sort(report.committed.begin(), report.committed.end());
    canvas_.write(report.committed);
    schedule_->end_step(canvas_, report);
    n_final_        = schedule_->n_final(canvas_);
    const bool open = decided && !schedule_->is_settled();
    if (open || (rule_ && rule_->takes_back() && canvas_.has_masks(pass_->span))) { // the block may be written over
        n_final_ = std::min(n_final_, pass_->span.from);
    }
    out_.steps.push_back(std::move(report));
    if (params_.on_step && !params_.on_step(out_.steps.back(), canvas_.tokens())) {
        canvas_.stop();
    }
}

std::vector<int32_t> Decoder::stored() const {
    return {canvas_.tokens().begin(), canvas_.tokens().begin() + canvas_.n_stored()};
}

double Decoder::elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

Generation Decoder::finish() {
    schedule_->close(canvas_);
    out_.ended           = canvas_.ended();
    const bool two_modes = settings_.schedule == ScheduleKind::two_modes;
    if (out_.ended && (settings_.exact_blocks || two_modes)) {
        canvas_.close(two_modes ? 1 : settings_.block_length);
    }
    out_.stopped            = canvas_.is_stopped();
    out_.tokens             = canvas_.answer();
    out_.sequence           = canvas_.tokens();
    const int32_t n_written = params_.speculate && !out_.ended ? canvas_.first_masked() : canvas_.wanted();
    out_.sequence.resize(std::min(out_.sequence.size(), static_cast<size_t>(n_written))); // speculation may go further
    out_.decode_ms     = elapsed_ms() - out_.prompt_ms;
    const size_t first = settings_.schedule == ScheduleKind::autoregressive ? 1 : 0;
    out_.n_decoded     = out_.tokens.size() - std::min(first, out_.tokens.size());
    return std::move(out_);
}

} // namespace buoy
