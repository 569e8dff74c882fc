// d2Cache (arXiv 2509.23094): a pass computes the masks that will be known soon, what was just written, and of the rest what attention
// flows to most.

#include "decode/adaptive-cache.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace buoy {

namespace {

// The mean over heads of a layer's attention, [rows, K].
using Pattern = std::vector<float>;

class D2Cache : public AdaptiveCache {
public:
    D2Cache(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : shift_(settings.shift), first_(canvas.first()), end_(canvas.end()),
          patterns_(static_cast<size_t>(settings.n_layer)) {
        const SettingReader s(params, settings.shift);
        as_is_        = s.is_on("code_as_is");
        rollout_p_    = s.number("rollout_p");
        current_k_    = static_cast<size_t>(s.whole("current_k"));
        sigma_        = s.number("cache_sigma");
        inflate_      = s.whole("inflate_w");
        block_length_ = settings.block_length > 0 ? settings.block_length : end_ - first_;
        confidence_.resize(static_cast<size_t>(end_ - first_));
    }

    void prepare(const Canvas & canvas, Pass & pass) override {
        if (!importance_.empty()) {
            pass.positions = choose(canvas, pass.asked);
        }
        const std::vector<int32_t> & rows  = pass.positions;
        const bool                   whole = rows.empty();
        masked_                            = canvas.masked({first_, end_});
        block_                             = pass.span;
        n_block_masked_                    = pass.asked.size();
        pass.asked                         = masked_; // all of whom something is learned
        std::erase_if(pass.asked,
                      [&](int32_t p) { return !whole && !std::binary_search(rows.begin(), rows.end(), row_of(p)); });
        rows_ = rows;
        if (whole) {
            rows_.resize(static_cast<size_t>(end_));
            std::iota(rows_.begin(), rows_.end(), 0);
        }
        Observer & observer = pass.observers.emplace_back();
        for (size_t il = 0; il < patterns_.size(); il++) {
            observer.taps.push_back({Tap::pattern, static_cast<int32_t>(il), TapReduce::heads});
        }
        observer.sink = [this](const TapEvent & event) { // [1, rows, K]
            patterns_[static_cast<size_t>(event.point.layer)].assign(event.data,
                                                                     event.data + event.shape[1] * event.shape[2]);
        };
    }

    void see(const RuleInput & in) override {
        // the reference means to keep the confidence up to date, but writes it into a copy
        if (importance_.empty() || !as_is_) {
            for (const Candidate & c : in.candidates) {
                confidence_[static_cast<size_t>(c.position - first_)] = static_cast<double>(c.prob);
            }
        }
        roll_out();
    }

    void report(StepReport & report) const override {
        report.measured.push_back({"importance", {importance_.begin(), importance_.end()}});
    }

private:
    int32_t row_of(int32_t position) const { return shift_ ? std::max(position - 1, 0) : position; }

    // How much of the last layer's rows comes from each position, through all layers: column sums of R = Ê_last … Ê_0, Ê the attention plus
    // the identity with rows divided by their sum, where a row that was not computed is the identity's. From the last layer down, so that
    // a vector is enough.
    void roll_out() {
        const auto T = static_cast<size_t>(end_);
        importance_.assign(T, 1.0);
        for (size_t il = patterns_.size(); il > 0; il--) {
            const Pattern &     pattern = patterns_[il - 1];
            std::vector<double> flow    = importance_;
            for (const int32_t row : rows_) {
                flow[static_cast<size_t>(row)] = 0.0;
            }
            for (size_t i = 0; i < rows_.size(); i++) {
                const auto    at    = static_cast<size_t>(rows_[i]);
                const float * from  = pattern.data() + i * T;
                const double  total = std::accumulate(from, from + T, 1.0);
                const double  share = importance_[at] / total;
                for (size_t k = 0; k < T; k++) {
                    flow[k] += share * static_cast<double>(from[k]);
                }
                flow[at] += share;
            }
            importance_ = std::move(flow);
        }
    }

    std::vector<int32_t> choose(const Canvas & canvas, const std::vector<int32_t> & in_block) const {
        const std::vector<int32_t> soon = choose_masks(canvas);
        std::set<int32_t>          chosen;
        for (const int32_t position : soon) {
            if (!shift_ || position > first_) {
                chosen.insert(row_of(position));
            }
        }
        for (const int32_t position : masked_) { // what was just written
            if (!canvas.is_masked(position)) {
                chosen.insert(position);
            }
        }
        add_important(chosen);
        if (shift_ && first_ > 0) {
            const bool opening = std::find(soon.begin(), soon.end(), first_) != soon.end();
            if (opening) {
                chosen.insert(first_ - 1);
            } else {
                chosen.erase(first_ - 1);
            }
        }
        inflate(chosen);
        // without any row of the block nothing could be written
        if (std::none_of(in_block.begin(), in_block.end(), [&](int32_t p) { return chosen.count(row_of(p)) > 0; })) {
            for (const int32_t position : in_block) {
                chosen.insert(row_of(position));
            }
        }
        return {chosen.begin(), chosen.end()};
    }

    // The masks that are likely to be known soon: by confidence and certainty density, those of the block just written first.
    std::vector<int32_t> choose_masks(const Canvas & canvas) const {
        const std::vector<double> density = certainty_density(canvas, first_, sigma_);
        std::vector<double>       score;
        for (size_t i = 0; i < density.size(); i++) {
            score.push_back(confidence_[i] * density[i]);
        }
        const double highest = *std::max_element(score.begin(), score.end());
        for (int32_t position = block_.from; position < block_.to; position++) {
            score[static_cast<size_t>(position - first_)] += highest;
        }
        std::vector<int32_t> left = canvas.masked({first_, end_});
        // the reference means the block's length, but has the masks that it had before the step
        const int32_t unit = as_is_ ? static_cast<int32_t>(n_block_masked_) : block_length_;
        const int32_t last = left.size() >= current_k_ ? left[current_k_ - 1] - first_ : end_ - first_ - 1;
        const int32_t to   = (last / unit + 1) * unit - 1;
        std::erase_if(left, [&](int32_t position) { return position - first_ > to; });
        std::stable_sort(left.begin(), left.end(), [&](int32_t a, int32_t b) {
            return score[static_cast<size_t>(a - first_)] > score[static_cast<size_t>(b - first_)];
        });
        left.resize(std::min(left.size(), current_k_));
        return left;
    }

    // Of the other positions those that matter most, until they hold their share of what matters; one at least.
    void add_important(std::set<int32_t> & chosen) const {
        std::vector<int32_t> others;
        double               total = 0.0;
        for (int32_t position = 0; position < end_; position++) {
            if (chosen.count(position) == 0) {
                others.push_back(position);
                total += importance_[static_cast<size_t>(position)];
            }
        }
        std::stable_sort(others.begin(), others.end(), [&](int32_t a, int32_t b) {
            return importance_[static_cast<size_t>(a)] > importance_[static_cast<size_t>(b)];
        });
        double sum = 0.0;
        for (size_t i = 0; i < others.size(); i++) {
            sum += importance_[static_cast<size_t>(others[i])] / total;
            if (i > 0 && sum > rollout_p_) {
                break;
            }
            chosen.insert(others[i]);
        }
    }

    // Gaps between neighbours that are close are filled.
    void inflate(std::set<int32_t> & chosen) const {
        const std::vector<int32_t> before(chosen.begin(), chosen.end());
        for (size_t i = 1; i < before.size(); i++) {
            for (int32_t p = before[i - 1] + 1; before[i] - before[i - 1] <= inflate_ && p < before[i]; p++) {
                chosen.insert(p);
            }
        }
    }

    const bool    shift_;
    const int32_t first_; // of the answer
    const int32_t end_;
    bool          as_is_     = true;
    double        rollout_p_ = 0.0, sigma_ = 1.0;
    size_t        current_k_ = 0;
    int32_t       inflate_ = 0, block_length_ = 0;

    std::vector<double>  confidence_; // by position of the answer
    std::vector<double>  importance_; // by position; empty: before the first pass
    std::vector<Pattern> patterns_;   // of the last pass, by layer
    std::vector<int32_t> rows_;       // of the last pass, positions
    std::vector<int32_t> masked_;     // before its tokens were written
    BlockSpan            block_;      // that it was about
    size_t               n_block_masked_ = 0;
};

} // namespace

std::unique_ptr<AdaptiveCache> make_d2(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas) {
    return std::make_unique<D2Cache>(settings, params, canvas);
}

} // namespace buoy
