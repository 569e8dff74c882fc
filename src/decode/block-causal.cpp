#include "decode/decode.h"
#include "decode/selection.h"

#include <algorithm>
#include <chrono>

namespace buoy {

int32_t block_due(const GenerateParams & params, int32_t length, int32_t n_steps, int32_t i) {
    if (params.edit_threshold) {
        return std::max(1, transfer_count(length, n_steps, i)); // edits may take more steps than the schedule has
    }
    return i < n_steps ? transfer_count(length, n_steps, i) : length;
}

namespace {

class BlockDecoder {
public:
    BlockDecoder(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params, bool shift)
        : canvas_(canvas), settings_(settings), params_(params), shift_(shift), random_(params.seed) {}

    void run() {
        const int32_t B               = settings_.block_length;
        const int32_t n_first         = canvas_.first() / B; // the block that holds the first mask
        const int32_t n_last          = (canvas_.end() + B - 1) / B;
        int32_t       n_masked_blocks = 0, n_before = 0;
        for (int32_t index = n_first; index < n_last; index++) {
            n_masked_blocks += canvas_.masked(span(index).from, span(index).to).empty() ? 0 : 1;
        }
        prefill(span(n_first).from);
        for (int32_t index = n_first; index < n_last && !is_done() && span(index).from < canvas_.wanted(); index++) {
            if (!canvas_.masked(span(index).from, span(index).to).empty()) {
                denoise(span(index), index - n_first, block_steps(params_, n_masked_blocks, n_before, B));
                n_before++;
            }
        }
    }

private:
    BlockSpan span(int32_t index) const {
        const int32_t from = index * settings_.block_length;
        return {from, std::min(from + settings_.block_length, canvas_.end())};
    }

    bool is_stored() const { return settings_.cache != DiffusionCache::none; }
    // an edit may take an end token back, so with edits a block is always completed
    bool is_done() const { return canvas_.is_done(); }
    bool is_over() const { return params_.edit_threshold ? canvas_.is_stopped() : canvas_.is_done(); }

    // Stores a long prompt in batches of whole blocks. The last batch is left to the first step, which then needs no pass more; who
    // observes gets everything there.
    void prefill(int32_t to) {
        const int32_t batch = std::max(params_.n_batch / settings_.block_length, 1) * settings_.block_length;
        if (!is_stored() || params_.on_forward || to - canvas_.n_stored() <= batch) {
            return;
        }
        const auto start = std::chrono::steady_clock::now();
        while (to - canvas_.n_stored() > batch && !canvas_.is_stopped()) {
            const int32_t next = canvas_.n_stored() + batch;
            canvas_.store(canvas_.n_stored(), next);
            canvas_.set_stored(next);
            canvas_.report_prompt(static_cast<float>(next) / static_cast<float>(to));
        }
        const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
        canvas_.set_prompt_ms(elapsed.count());
    }

    // Everything that is not stored for good yet, up to `to`: finished blocks are stored by the first pass of the next one.
    std::vector<Candidate> ask_block(const std::vector<int32_t> & positions, const BlockSpan & block, int32_t to) {
        if (!is_stored()) {
            return canvas_.ask(positions, 0, to, KvUse::none);
        }
        std::vector<Candidate> candidates = canvas_.ask(positions, canvas_.n_stored(), to, KvUse::store);
        canvas_.set_stored(block.from);
        return candidates;
    }

    void denoise(const BlockSpan & block, int32_t index, int32_t n_steps) {
        if (shift_ && block.from > 0 && canvas_.is_masked(block.from)) {
            // the row that predicts the block's first token lies before it, so it is final already
            canvas_.commit(ask_block({block.from}, block, block.from), 1, index);
        }
        const int32_t part = settings_.sub_block_length > 0 ? settings_.sub_block_length : settings_.block_length;
        n_steps_           = n_steps;
        i_                 = 0;
        block_seen_        = false;
        for (int32_t from = block.from; from < std::min(block.to, canvas_.wanted()) && !is_over(); from += part) {
            denoise_part(block, {from, std::min(from + part, block.to)}, index);
        }
    }

    void denoise_part(const BlockSpan & block, const BlockSpan & part, int32_t index) {
        const int32_t needed = params_.edit_threshold ? part.to : std::min(part.to, canvas_.wanted());
        int32_t       n_post = 0;
        for (bool first = true; !is_over(); first = false, i_++) {
            const bool full = canvas_.masked(part.from, needed).empty();
            if (full && (!params_.edit_threshold || ++n_post > params_.post_steps)) {
                return;
            }
            const int32_t due = block_due(params_, settings_.block_length, n_steps_, i_);
            if (due == 0 && !settings_.open_ended(params_)) { // a step of the schedule in which nothing is due
                canvas_.commit({}, 0, index);
                continue;
            }
            std::vector<Candidate> edits, candidates = ask_part(block, part, first);
            take_edits(candidates, edits);
            rank(candidates, settings_.order, params_, part, random_, canvas_.step());
            const auto n = std::min<size_t>(static_cast<size_t>(choose_count(candidates, due)), candidates.size());
            candidates.resize(n);
            candidates.insert(candidates.end(), edits.begin(), edits.end());
            canvas_.commit(candidates, static_cast<int32_t>(candidates.size()), index);
            if (full && edits.empty()) {
                return;
            }
        }
    }

    std::vector<Candidate> ask_part(const BlockSpan & block, const BlockSpan & part, bool first) {
        std::vector<int32_t> asked;
        for (int32_t position = part.from; position < part.to; position++) {
            const bool editable = params_.edit_threshold && !canvas_.is_given(position);
            if (canvas_.is_masked(position) || editable) {
                asked.push_back(position);
            }
        }
        // with a cache inside the block, its other parts are those of the part's first pass
        const bool whole =
            settings_.cache != DiffusionCache::dual || !block_seen_ || (shift_ ? canvas_.is_masked(part.from) : first);
        block_seen_ = true;
        return whole ? ask_block(asked, block, block.to) : canvas_.ask(asked, part.from, part.to, KvUse::store);
    }

    // Moves what was written before out of the candidates; kept are other tokens that the model is sure of.
    void take_edits(std::vector<Candidate> & candidates, std::vector<Candidate> & edits) const {
        const auto written = std::stable_partition(candidates.begin(), candidates.end(),
                                                   [&](const Candidate & c) { return canvas_.is_masked(c.position); });
        std::copy_if(written, candidates.end(), std::back_inserter(edits), [&](const Candidate & c) {
            return c.id != canvas_.token(c.position) && c.prob > *params_.edit_threshold;
        });
        candidates.erase(written, candidates.end());
    }

    int32_t choose_count(std::vector<Candidate> & ranked, int32_t due) const {
        if (ranked.empty()) {
            return 0;
        }
        if (params_.threshold) {
            return keep_surer(ranked, *params_.threshold, due);
        }
        if (params_.factor) {
            return count_by_factor(ranked, *params_.factor);
        }
        return settings_.algorithm == Algorithm::eb ? count_by_entropy_sum(ranked, params_.eb_gamma) : due;
    }

    Canvas &                canvas_;
    const DenoiseSettings & settings_;
    const GenerateParams &  params_;
    const bool              shift_;
    const RandomSource      random_;
    int32_t                 n_steps_    = 0; // of the block
    int32_t                 i_          = 0;
    bool                    block_seen_ = false; // a pass has covered it
};

} // namespace

void denoise_block_causal(Canvas & canvas, const DenoiseSettings & settings, const GenerateParams & params) {
    BlockDecoder(canvas, settings, params, canvas.shift()).run();
}

} // namespace buoy
