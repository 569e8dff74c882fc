#include "decode/canvas.h"

#include "buoy/error.h"

#include <algorithm>
#include <array>

namespace buoy {

namespace {

// The end of the block that holds the last position, if the context has room for it.
size_t canvas_length(int32_t n_wanted, int32_t block_length, int32_t n_ctx) {
    const int64_t B       = std::max(block_length, 1);
    const int64_t rounded = (n_wanted + B - 1) / B * B;
    return static_cast<size_t>(std::max<int64_t>(n_wanted, std::min<int64_t>(rounded, n_ctx)));
}

} // namespace

Canvas::Canvas(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & params,
               int32_t block_length)
    : context_(context), params_(params), traits_(context.info().traits),
      choice_(params, traits_.mask_id, traits_.shift ? ConfidenceOf::sampling : ConfidenceOf::model), tokens_(prompt),
      block_length_(block_length), wanted_(static_cast<int32_t>(prompt.size()) + params.n_predict) {
    tokens_.resize(canvas_length(wanted_, params.n_predict > 0 ? block_length : 0, context.n_ctx()), traits_.mask_id);
    for (int32_t id : tokens_) {
        given_.push_back(id != traits_.mask_id);
    }
    first_  = static_cast<int32_t>(std::find(given_.begin(), given_.end(), false) - given_.begin());
    answer_ = static_cast<int32_t>(std::find(given_.rbegin(), given_.rend(), true).base() - given_.begin());
    if (traits_.closing_id >= 0 && params.n_predict > 1) {
        tokens_.back() = traits_.closing_id;
    }
    out_.prompt = prompt;
    output_     = choice_.summary_is_enough() ? OutputKind::summary : OutputKind::logits;
    // of what is stored, whole blocks of the same tokens stay exact; guidance hides the prompt, which is another one then
    if (block_length > 0 && params.cfg_scale == 0.0f) {
        const auto    same   = std::mismatch(params.stored.begin(), params.stored.end(), tokens_.begin(),
                                             tokens_.begin() + std::min(first_, end())); // masks are never stored
        const int32_t n_same = static_cast<int32_t>(same.first - params.stored.begin());
        // with a shift, the row before the first mask has to be computed, as it predicts it
        n_stored_ = std::min(n_same, traits_.shift ? std::max(first_ - 1, 0) : first_) / block_length * block_length;
    }
    context_.kv_truncate(0, n_stored_);
    if (params.cfg_scale > 0.0f) {
        context_.kv_truncate(1, n_stored_);
    }
}

std::vector<int32_t> Canvas::masked(int32_t from, int32_t to) const {
    std::vector<int32_t> positions;
    for (int32_t position = from; position < to; position++) {
        if (is_masked(position)) {
            positions.push_back(position);
        }
    }
    return positions;
}

bool Canvas::is_end(int32_t position) const {
    return position >= answer_ &&
           std::find(params_.end_ids.begin(), params_.end_ids.end(), token(position)) != params_.end_ids.end();
}

bool Canvas::ended() const {
    for (int32_t position = first_; position < wanted_ && !is_masked(position); position++) {
        if (is_end(position)) {
            return true;
        }
    }
    return false;
}

ForwardRequest Canvas::make_request(int32_t from, int32_t to, KvUse kv) const {
    ForwardRequest request; // made anew: what an observer added was for one pass
    request.output       = output_;
    request.kv           = kv;
    request.block_length = block_length_;
    request.tokens.assign(tokens_.begin() + from, tokens_.begin() + to);
    for (int32_t position = from; position < to; position++) {
        request.positions.push_back(position);
    }
    return request;
}

// Classifier-free guidance: a second sequence, in which what was given is hidden and what was generated stays.
const ForwardResult & Canvas::forward(ForwardRequest request) {
    out_.n_forward++;
    if (params_.cfg_scale == 0.0f) {
        return context_.forward(request);
    }
    ForwardRequest hidden = request;
    hidden.sequence       = 1;
    hidden.edits.clear();
    hidden.observers.clear();
    for (size_t i = 0; i < hidden.tokens.size(); i++) {
        hidden.tokens[i] = given_[static_cast<size_t>(hidden.positions[i])] ? traits_.mask_id : hidden.tokens[i];
    }
    request.guidance                         = Guidance{1, params_.cfg_scale};
    const std::array<ForwardRequest, 2> both = {std::move(request), std::move(hidden)};
    return context_.forward(both)[0];
}

void Canvas::store(int32_t from, int32_t to) { forward(make_request(from, to, KvUse::store)); }

std::vector<Candidate> Canvas::ask(const std::vector<int32_t> & positions, int32_t from, int32_t to, KvUse kv) {
    ForwardRequest request = make_request(from, to, kv);
    for (int32_t position : positions) {
        // shifted models predict a token from the row before it; the first row stands in for itself
        request.rows.push_back((traits_.shift ? std::max(position - 1, 0) : position) - from);
    }
    if (params_.on_forward) {
        params_.on_forward(step(), request);
    }
    const ForwardResult & result = forward(std::move(request));

    std::vector<Candidate> candidates;
    if (output_ == OutputKind::logits) {
        candidates = choice_.choose(result.logits, context_.info().n_vocab, step(), positions);
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

void Canvas::commit(const std::vector<Candidate> & ranked, int32_t n, int32_t block) {
    StepReport report;
    report.step       = step();
    report.block      = block;
    report.confidence = std::move(confidence_);
    confidence_.clear();
    for (int32_t i = 0; i < std::min(n, static_cast<int32_t>(ranked.size())); i++) {
        const Candidate & c                      = ranked[static_cast<size_t>(i)];
        tokens_[static_cast<size_t>(c.position)] = c.id;
        report.committed.emplace_back(c.position, c.id);
    }
    std::sort(report.committed.begin(), report.committed.end());
    out_.steps.push_back(std::move(report));
    out_.stopped = params_.on_step && !params_.on_step(out_.steps.back(), tokens_);
}

Generation Canvas::finish() {
    out_.ended = ended();
    for (int32_t position = first_; position < wanted_ && !is_end(position); position++) {
        if (!given_[static_cast<size_t>(position)] && !is_masked(position)) { // a stopped run shows what is there
            out_.tokens.push_back(token(position));
        }
    }
    out_.stored.assign(tokens_.begin(), tokens_.begin() + n_stored_);
    tokens_.resize(static_cast<size_t>(wanted_));
    out_.sequence = std::move(tokens_);
    return std::move(out_);
}

} // namespace buoy
