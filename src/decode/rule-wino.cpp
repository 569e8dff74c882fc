// WINO: writes many positions at once, and takes back what a shadow block, which sees everything but the position itself, does not
// confirm.

#include "decode/rule.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

class Wino : public Rule {
public:
    explicit Wino(const RuleParams & in) : threshold_(*in.settings.threshold), mask_id_(in.info.traits.mask_id) {
        const SettingReader s = in.constants();
        back_                 = s.number("threshold_back");
        ratio_                = s.number("accept_ratio");
        accept_min_           = s.whole("accept_min");
        accept_max_           = s.whole("accept_max");
        last_init_            = s.whole("last_accept_init");
    }

    bool needs_logits() const override { return true; } // the probability of the token that stands there
    bool takes_back() const override { return true; }

    void prepare(const Canvas &, Pass & pass) override {
        if (pass.block != block_) {
            block_ = pass.block;
            last_  = last_init_;
            candidates_.clear();
        }
        pass.shadow      = pass.span;
        pass.shadow_rows = candidates_;
    }

    std::vector<Candidate> select(const RuleInput & in) override {
        std::vector<Candidate> accepted = accept(writable(in));
        std::vector<int32_t>   back     = accepted.size() >= 2 ? take_back(in) : std::vector<int32_t>();

        std::erase_if(candidates_, [&](int32_t p) { return std::find(back.begin(), back.end(), p) != back.end(); });
        for (const Candidate & c : accepted) {
            candidates_.push_back(c.position);
        }
        std::sort(candidates_.begin(), candidates_.end());
        last_ = static_cast<int32_t>(accepted.size());
        for (const int32_t position : back) {
            accepted.push_back({.position = position, .id = mask_id_});
        }
        return accepted;
    }

private:
    std::vector<Candidate> accept(std::vector<Candidate> all) const {
        const auto share  = static_cast<int32_t>(ratio_ * static_cast<double>(all.size()));
        const auto cap    = static_cast<size_t>(std::min(std::max(share, accept_min_), accept_max_));
        const auto n_sure = static_cast<size_t>(
            std::count_if(all.begin(), all.end(), [this](const Candidate & c) { return c.prob > threshold_; }));
        return most_confident(std::move(all), std::max<size_t>(std::min(n_sure, cap), 1));
    }

    // What was written before this step and is not confirmed. Fewer than the last step wrote, so that there is an end.
    std::vector<int32_t> take_back(const RuleInput & in) const {
        std::vector<std::pair<double, int32_t>> doubted; // probability, position
        for (size_t i = 0; i < candidates_.size(); i++) {
            const int32_t position = candidates_[i];
            const auto    V        = static_cast<size_t>(in.n_vocab);
            const float * row      = in.result.logits.data() + (in.candidates.size() + i) * V;
            doubted.emplace_back(probability({row, V}, in.canvas.token(position)), position);
        }
        std::sort(doubted.begin(), doubted.end());
        const auto n_below =
            std::count_if(doubted.begin(), doubted.end(), [this](const auto & d) { return d.first < back_; });
        const auto           n = n_below >= last_ ? last_ - 1 : n_below;
        std::vector<int32_t> back;
        for (auto i = size_t{0}; i < static_cast<size_t>(n); i++) {
            back.push_back(doubted[i].second);
        }
        return back;
    }

    static double probability(std::span<const float> logits, int32_t id) {
        const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
        double     total   = 0.0;
        for (const float logit : logits) {
            total += std::exp(static_cast<double>(logit) - largest);
        }
        return std::exp(static_cast<double>(logits[static_cast<size_t>(id)]) - largest) / total;
    }

    const float   threshold_;
    const int32_t mask_id_;
    double        back_ = 0.0, ratio_ = 0.0;
    int32_t       accept_min_ = 0, accept_max_ = 0, last_init_ = 0;

    int32_t              block_ = -1;
    int32_t              last_  = 0;  // written by the last step
    std::vector<int32_t> candidates_; // positions written in this block that may be taken back, ascending
};

} // namespace

std::unique_ptr<Rule> make_wino(const RuleParams & in) { return std::make_unique<Wino>(in); }

} // namespace buoy
