// The algorithms that SGLang serves LLaDA2 with: LowConfidence, JointThreshold, and for LLaDA2.2 JointThresholdInDel, whose model edits
// the length of a block by two tokens of its own. A step decides about the whole block; what is stored of a finished one is exact.

#include "decode/schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace buoy {

namespace {

// What a row would write.
struct Choice {
    int32_t id   = 0;
    double  prob = 0.0; // over the whole vocabulary
};

Choice best_of(std::span<const float> logits, const std::set<int32_t> & forbidden = {}) {
    const float largest = *std::max_element(logits.begin(), logits.end());
    double      sum     = 0.0;
    int32_t     id      = -1;
    for (size_t i = 0; i < logits.size(); i++) {
        sum += std::exp(static_cast<double>(logits[i] - largest));
        if ((id < 0 || logits[i] > logits[static_cast<size_t>(id)]) && forbidden.count(static_cast<int32_t>(i)) == 0) {
            id = static_cast<int32_t>(i);
        }
    }
    return {id, std::exp(static_cast<double>(logits[static_cast<size_t>(id)] - largest)) / sum};
}

// A position of the block.
struct Cell {
    int32_t token    = 0;
    bool    given    = false;
    bool    original = false; // a mask when the block began
    bool    chosen   = false; // to be written by this step
    Choice  choice   = {};
};

class Serving : public Schedule {
public:
    Serving(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : settings_(settings), params_(params), index_first_(canvas.first() / settings.block_length),
          index_(index_first_) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        if (auto pass = store_blocks(settings_, params_, canvas, index_first_ * settings_.block_length)) {
            return pass;
        }
        if (canvas.is_stopped() || (!in_block_ && (canvas.is_done() || !enter_block(canvas)))) {
            return {};
        }
        const bool is_stored = settings_.cache != DiffusionCache::none;
        Pass       pass;
        pass.from     = is_stored ? std::max(canvas.n_stored(), n_clean_) : 0;
        pass.to       = block_.to;
        pass.kv       = is_stored ? KvUse::store : KvUse::none;
        pass.block    = index_ - index_first_;
        pass.n_stored = is_stored ? block_.from : canvas.n_stored();
        pass.span     = block_;
        pass.due      = 1;
        for (int32_t position = block_.from; position < block_.to; position++) {
            if (!cell(position).given) {
                pass.asked.push_back(position);
            }
        }
        return pass;
    }

    std::optional<Writes> decide(const Canvas & canvas, std::span<const Candidate> candidates,
                                 const ForwardResult & rows) override {
        if (candidates.empty()) {
            return least(canvas);
        }
        read(canvas, candidates, rows);
        switch (settings_.algorithm) {
            case Algorithm::joint_threshold: joint_threshold(); break;
            case Algorithm::joint_threshold_indel: joint_threshold_indel(); break;
            default: low_confidence(); break;
        }
        Writes writes;
        for (int32_t position = block_.from; position < block_.to; position++) {
            if (cell(position).token != canvas.token(position)) {
                writes.emplace_back(position, cell(position).token);
            }
        }
        return writes;
    }

private:
    Cell &  cell(int32_t position) { return cells_[static_cast<size_t>(position - block_.from)]; }
    bool    is_mask(const Cell & one) const { return one.token == mask_id_; }
    int32_t n_masks() const {
        return static_cast<int32_t>(
            std::count_if(cells_.begin(), cells_.end(), [&](const Cell & c) { return is_mask(c); }));
    }
    int32_t length() const { return block_.to - block_.from; }

    // Goes to the next block that has masks.
    bool enter_block(const Canvas & canvas) {
        const auto span = [&](int32_t index) {
            const int32_t from = index * settings_.block_length;
            return BlockSpan{from, std::min(from + settings_.block_length, canvas.end())};
        };
        while (span(index_).from < canvas.wanted() && !canvas.has_masks(span(index_))) {
            index_++;
        }
        block_   = span(index_);
        mask_id_ = canvas.mask_id();
        cells_.clear();
        for (int32_t position = block_.from; position < std::min(block_.to, canvas.end()); position++) {
            const bool masked = canvas.is_masked(position);
            cells_.push_back({.token = canvas.token(position), .given = canvas.is_given(position), .original = masked});
        }
        n_updates_ = n_post_ = 0;
        seen_.clear();
        in_block_ = block_.from < canvas.wanted();
        return in_block_;
    }

    // clean: the last pass saw the block as it is now, so what is stored of it is exact; else the next block's first pass stores it.
    void leave_block(bool clean) {
        in_block_ = false;
        n_clean_  = clean ? block_.to : block_.from;
        index_++;
    }

    // The rows' choices; a mask is never written, but for the model that edits lengths.
    void read(const Canvas & canvas, std::span<const Candidate> candidates, const ForwardResult & rows) {
        const size_t n_vocab = rows.logits.size() / candidates.size();
        logits_              = rows.logits;
        for (size_t i = 0; i < candidates.size(); i++) {
            Cell & one = cell(candidates[i].position);
            one.choice = {candidates[i].id, static_cast<double>(candidates[i].prob)};
            one.chosen = false;
            if (n_vocab == 0) {
                continue;
            }
            const std::span<float> row(logits_.data() + i * n_vocab, n_vocab);
            for (const auto & [id, bias] : params_.logit_bias) {
                row[static_cast<size_t>(id)] += bias;
            }
            if (candidates[i].position > block_.from) {
                row[static_cast<size_t>(canvas.token(candidates[i].position - 1))] -= params_.repeat_penalty;
            }
            row_of_[candidates[i].position - block_.from] = row;
            const bool lengths                            = settings_.algorithm == Algorithm::joint_threshold_indel;
            one.choice                                    = lengths ? best_of(row) : best_of(row, {mask_id_});
        }
    }

    Choice next_best(size_t index, const std::set<int32_t> & forbidden) const {
        return best_of(row_of_.at(static_cast<int32_t>(index)), forbidden);
    }

    // Masks surer than the threshold if they are at least that many, else the n surest.
    void choose_masks(int32_t n) {
        std::vector<Cell *> masks;
        for (Cell & one : cells_) {
            if (is_mask(one)) {
                masks.push_back(&one);
            }
        }
        std::stable_sort(masks.begin(), masks.end(),
                         [](const Cell * a, const Cell * b) { return a->choice.prob > b->choice.prob; });
        const auto sure   = std::find_if(masks.begin(), masks.end(), [&](const Cell * c) {
            return c->choice.prob <= static_cast<double>(*settings_.threshold);
        });
        const auto n_sure = static_cast<int32_t>(sure - masks.begin());
        masks.resize(std::min(masks.size(), static_cast<size_t>(std::max(n_sure, n))));
        for (Cell * one : masks) {
            one->chosen = true;
        }
    }

    void choose_all_masks() {
        for (Cell & one : cells_) {
            one.chosen = one.chosen || is_mask(one);
        }
    }

    void choose_edits() {
        for (Cell & one : cells_) {
            if (!one.given && !is_mask(one) && one.choice.id != one.token &&
                one.choice.prob > settings_.edit_threshold) {
                one.chosen = true;
            }
        }
    }

    bool any_chosen() const {
        return std::any_of(cells_.begin(), cells_.end(), [](const Cell & c) { return c.chosen; });
    }

    void write_chosen() {
        for (Cell & one : cells_) {
            one.token = one.chosen ? one.choice.id : one.token;
        }
    }

    void low_confidence() {
        choose_masks(1);
        write_chosen();
        if (n_masks() == 0) {
            leave_block(false);
        }
    }

    void joint_threshold() {
        n_post_ += n_masks() == 0 ? 1 : 0;
        choose_masks(1);
        choose_edits();
        if (n_post_ > params_.post_steps || !any_chosen()) {
            leave_block(true);
            return;
        }
        write_chosen();
        if (++n_updates_ > length() + params_.post_steps) {
            leave_block(false);
        }
    }

    void joint_threshold_indel() {
        const auto    is_open = [&](const Cell & c) { return c.original && is_mask(c); };
        const auto    n_open  = static_cast<int32_t>(std::count_if(cells_.begin(), cells_.end(), is_open));
        const int32_t budget  = params_.post_steps;
        n_post_ += n_open == 0 ? 1 : 0;
        bool cleanup = budget > 0 ? n_post_ >= budget : n_open == 0;
        cleanup      = cleanup || n_updates_ > length() + budget;
        for (size_t i = 0; i < cells_.size(); i++) {
            if (!cleanup && is_open(cells_[i]) && cells_[i].choice.id == mask_id_) {
                cells_[i].choice = next_best(i, {mask_id_});
            }
        }
        if (n_open > 0 && !cleanup) {
            choose_masks(1 + n_masks() - n_open);
            const bool all =
                std::all_of(cells_.begin(), cells_.end(), [&](const Cell & c) { return !is_open(c) || c.chosen; });
            cleanup = budget == 0 && all;
        }
        if (n_open == 0 || cleanup) {
            choose_all_masks();
        }
        choose_edits();
        if (!any_chosen()) {
            leave_block(true);
            return;
        }
        if (cleanup) {
            forbid_signs();
        } else {
            break_cycle();
        }
        const std::vector<int32_t> before = tokens();
        apply_signs();
        n_updates_++;
        if (cleanup) {
            leave_block(tokens() == before);
        }
    }

    std::vector<int32_t> tokens() const {
        std::vector<int32_t> all;
        for (const Cell & one : cells_) {
            all.push_back(one.token);
        }
        return all;
    }

    void forbid_signs() {
        for (size_t i = 0; i < cells_.size(); i++) {
            if (cells_[i].chosen) {
                cells_[i].choice = next_best(i, {mask_id_, settings_.delete_id, settings_.split_id});
            }
        }
    }

    // Where the block has been like that before, the least sure of its changes becomes one that was not tried there.
    void break_cycle() {
        const bool again = !seen_.insert(tokens()).second;
        if (!again) {
            return;
        }
        size_t at = cells_.size();
        for (size_t i = 0; i < cells_.size(); i++) {
            const Cell & one     = cells_[i];
            const bool   changes = one.chosen && one.choice.id != one.token;
            if (changes && (at == cells_.size() || one.choice.prob < cells_[at].choice.prob)) {
                at = i;
            }
        }
        if (at == cells_.size()) {
            return;
        }
        std::set<int32_t> tried;
        for (const std::vector<int32_t> & content : seen_) {
            tried.insert(content[at]);
        }
        if (cells_[at].original && is_mask(cells_[at])) {
            tried.insert(mask_id_);
        }
        cells_[at].choice = next_best(at, tried);
    }

    // DELETE drops a position, SPLIT puts a mask before it; what follows moves, and the block keeps its length.
    void apply_signs() {
        std::vector<Cell> moved;
        for (const Cell & one : cells_) {
            Cell kept = one;
            if (one.chosen && one.choice.id == settings_.delete_id) {
                continue;
            }
            if (one.chosen && one.choice.id == settings_.split_id) {
                moved.push_back({.token = mask_id_});
            } else if (one.chosen) {
                kept.token = one.choice.id;
            }
            moved.push_back(kept);
        }
        moved.resize(cells_.size(), {.token = mask_id_});
        cells_ = std::move(moved);
    }

    // One mask a step, then edits for as long as there may be some.
    Writes least(const Canvas & canvas) {
        const int32_t last = block_.to - 1;
        Cell *        one  = &cell(last);
        for (int32_t position = block_.from; position < block_.to; position++) {
            one = is_mask(cell(position)) ? &cell(position) : one;
        }
        const bool edits     = settings_.algorithm != Algorithm::low_confidence;
        one->token           = one->token == canvas.any_id() ? canvas.any_id() + 2 : canvas.any_id();
        const int32_t at     = block_.from + static_cast<int32_t>(one - cells_.data());
        const Writes  writes = {{at, one->token}};
        if (++n_updates_ > length() + params_.post_steps + 1 || (!edits && n_masks() == 0)) {
            leave_block(false);
        }
        return writes;
    }

    const DecodeSettings & settings_;
    const GenerateParams & params_;
    const int32_t          index_first_; // the block that holds the first mask

    BlockSpan         block_;
    std::vector<Cell> cells_; // of it
    int32_t           index_;
    int32_t           mask_id_   = -1;
    bool              in_block_  = false;
    int32_t           n_clean_   = 0; // positions whose stored keys and values are exact
    int32_t           n_updates_ = 0;
    int32_t           n_post_    = 0; // steps that could only edit

    std::vector<float>                        logits_; // of the last pass
    std::map<int32_t, std::span<const float>> row_of_; // by index in the block
    std::set<std::vector<int32_t>>            seen_;   // contents of the block
};

} // namespace

std::unique_ptr<Schedule> make_serving(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas) {
    return std::make_unique<Serving>(settings, params, canvas);
}

} // namespace buoy
