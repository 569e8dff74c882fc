#include "decode/canvas.h"

#include <algorithm>

namespace buoy {

namespace {

// The end of the block that holds the last position wanted, if the context has room for it. Speculation may go further by a block.
size_t canvas_length(const DecodeSettings & settings, const GenerateParams & params, int32_t n_wanted, int32_t n_ctx) {
    const bool behind   = settings.schedule == ScheduleKind::two_modes; // blocks are counted from the end of the prompt
    const bool tiled    = settings.is_block_causal() && !settings.exact_blocks;
    const int64_t B     = params.n_predict > 0 && (behind || tiled) ? settings.block_length : 1;
    const int64_t first = behind ? n_wanted - params.n_predict : 0;
    const int64_t end   = first + (n_wanted - first + B - 1) / B * B + (behind && params.speculate ? B : 0);
    return static_cast<size_t>(std::max<int64_t>(n_wanted, std::min<int64_t>(end, n_ctx)));
}

} // namespace

Canvas::Canvas(const Traits & traits, const DecodeSettings & settings, const std::vector<int32_t> & prompt,
               const GenerateParams & params, int32_t n_ctx)
    : mask_id_(traits.mask_id), end_ids_(params.end_ids), tokens_(prompt),
      wanted_(static_cast<int32_t>(prompt.size()) + params.n_predict) {
    const bool canvases = settings.schedule == ScheduleKind::canvases;
    if (canvases || settings.schedule == ScheduleKind::autoregressive) { // grows; a mask is a token like others
        given_.assign(prompt.size(), true);
        first_ = answer_ = end();
        return;
    }
    if (settings.schedule == ScheduleKind::growing) {
        wanted_ = static_cast<int32_t>(prompt.size()) + std::min(settings.initial_length, params.n_predict);
    }
    tokens_.resize(canvas_length(settings, params, wanted_, n_ctx), mask_id_);
    for (int32_t id : tokens_) {
        given_.push_back(id != mask_id_);
    }
    first_  = static_cast<int32_t>(std::find(given_.begin(), given_.end(), false) - given_.begin());
    answer_ = static_cast<int32_t>(std::find(given_.rbegin(), given_.rend(), true).base() - given_.begin());
    if (traits.closing_id >= 0 && params.n_predict > 1 && settings.schedule != ScheduleKind::growing) {
        tokens_.back() = traits.closing_id;
    }
}

void Canvas::reuse(std::span<const int32_t> stored, const DecodeSettings & settings) {
    const bool reads = settings.schedule == ScheduleKind::two_modes && settings.causal_context;
    const bool grows =
        settings.schedule == ScheduleKind::autoregressive || settings.schedule == ScheduleKind::canvases || reads;
    if (!grows && !settings.is_block_causal()) {
        return; // full attention has no exact K/V
    }
    // of what is stored, the same tokens stay exact, in whole blocks; masks are never stored
    const auto same   = std::mismatch(stored.begin(), stored.end(), tokens_.begin(), tokens_.begin() + first_);
    const auto n_same = static_cast<int32_t>(same.first - stored.begin());
    // with a shift, the row before the first position to be written has to be computed, as it predicts it
    const int32_t n = std::min(n_same, grows || settings.shift ? std::max(first_ - 1, 0) : first_);
    n_stored_       = grows ? n : n / settings.block_length * settings.block_length;
}

int32_t Canvas::first_masked() const {
    return static_cast<int32_t>(std::find(tokens_.begin() + first_, tokens_.end(), mask_id_) - tokens_.begin());
}

std::vector<int32_t> Canvas::masked(const BlockSpan & span) const {
    std::vector<int32_t> positions;
    for (int32_t position = span.from; position < span.to; position++) {
        if (is_masked(position)) {
            positions.push_back(position);
        }
    }
    return positions;
}

bool Canvas::has_masks(const BlockSpan & span) const {
    return std::find(tokens_.begin() + span.from, tokens_.begin() + span.to, mask_id_) != tokens_.begin() + span.to;
}

bool Canvas::has_token(int32_t id) const {
    return std::find(tokens_.begin() + first_, tokens_.end(), id) != tokens_.end();
}

bool Canvas::is_end(int32_t position) const {
    return position >= answer_ && std::find(end_ids_.begin(), end_ids_.end(), token(position)) != end_ids_.end();
}

bool Canvas::ended() const {
    for (int32_t position = first_; position < std::min(wanted_, end()) && !is_masked(position); position++) {
        if (is_end(position)) {
            return true;
        }
    }
    return false;
}

void Canvas::write(std::span<const std::pair<int32_t, int32_t>> tokens) {
    for (const auto & [position, id] : tokens) {
        if (position == end()) {
            tokens_.push_back(id);
        }
        tokens_[static_cast<size_t>(position)] = id;
    }
    n_written_ = static_cast<int32_t>(tokens.size());
}

void Canvas::close(int32_t block_length) {
    int32_t position = first_;
    while (position < wanted_ && !is_end(position)) {
        position++;
    }
    const int32_t to = std::min((position / block_length + 1) * block_length, wanted_);
    std::fill(tokens_.begin() + position, tokens_.begin() + to, token(position));
    wanted_ = to;
}

void Canvas::expand(int32_t position, int32_t n, int32_t length_max) {
    tokens_.insert(tokens_.begin() + position, static_cast<size_t>(n) - 1, mask_id_);
    tokens_.resize(std::min(tokens_.size(), static_cast<size_t>(length_max)));
    wanted_ = end();
}

void Canvas::append(int32_t n, int32_t id) {
    tokens_.insert(tokens_.end(), static_cast<size_t>(n), id);
    wanted_ = end();
}

std::vector<int32_t> Canvas::answer() const {
    std::vector<int32_t> out;
    for (int32_t position = first_; position < std::min(wanted_, end()) && !is_end(position); position++) {
        if (!is_given(position) && (!is_masked(position) || position >= left_)) { // a stopped run shows what is there
            out.push_back(token(position));
        }
    }
    return out;
}

} // namespace buoy
