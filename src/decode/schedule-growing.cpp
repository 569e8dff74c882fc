// DAEDAL: finds the length of an answer. First the canvas grows until the model sees its end, then a position about which the model is
// very unsure becomes several.

#include "buoy/message.h"
#include "decode/rule.h"

#include <algorithm>

namespace buoy {

namespace {

class Growing : public Schedule, public Rule {
public:
    Growing(const DecodeSettings & settings, const GenerateParams & params, const Canvas & canvas)
        : n_max_(params.n_predict), first_(canvas.first()), block_length_(settings.block_length), pos_(canvas.first()) {
        const SettingReader s(params, settings.shift);
        eos_id_ = s.is_set("eos_id") ? s.whole("eos_id") : params.end_ids.empty() ? -1 : params.end_ids[0];
        if (eos_id_ < 0) {
            fail("an answer of automatic length needs an end token to look for: `end_ids`, or the setting eos_id");
        }
        for (int32_t position = first_; position < canvas.end(); position++) {
            if (canvas.is_given(position)) {
                fail("an answer of automatic length can't follow a prompt with masks");
            }
        }
        high_       = static_cast<float>(s.number("high_conf_threshold"));
        low_        = static_cast<float>(s.number("low_conf_threshold"));
        factor_     = s.whole("expansion_factor");
        eos_first_  = s.number("eos_confidence_threshold");
        eos_expand_ = s.number("expand_eos_confidence_threshold");
        n_check_    = s.whole("eos_check_tokens");
    }

    Rule * rule() override { return this; }

    std::optional<Pass> next(const Canvas & canvas) override {
        const bool over = !finding_end_ && (pos_ >= canvas.end() || canvas.ended());
        if (finished_ || canvas.is_stopped() || over) {
            return {};
        }
        Pass pass;
        pass.to    = canvas.end();
        pass.due   = finding_end_ ? 0 : 1;
        pass.span  = finding_end_ ? BlockSpan{first_, canvas.end()} : window(canvas);
        pass.block = (pos_ - first_) / block_length_;
        for (int32_t position = first_; position < canvas.end(); position++) {
            pass.asked.push_back(position);
        }
        return pass;
    }

    std::vector<Candidate> select(const RuleInput & in) override {
        end_confidence_ = confidence_of_end(in.candidates);
        weakest_.reset();
        std::vector<Candidate> filled;
        if (finding_end_) {
            return filled;
        }
        std::vector<Candidate> masked;
        for (const Candidate & c : in.candidates) {
            if (c.position >= in.pass.span.from && c.position < in.pass.span.to && in.canvas.is_masked(c.position)) {
                masked.push_back(c);
                if (c.prob > high_) {
                    filled.push_back(c);
                }
            }
        }
        if (filled.empty()) {
            filled.push_back(most_confident(masked));
        }
        for (const Candidate & c : masked) {
            const bool left = std::none_of(filled.begin(), filled.end(),
                                           [&](const Candidate & f) { return f.position == c.position; });
            if (left && c.prob < low_ && (!weakest_ || c.prob < weakest_->prob)) {
                weakest_ = c;
            }
        }
        return filled;
    }

    void end_step(Canvas & canvas, StepReport & report) override {
        CanvasGrowth growth{.stage = finding_end_ ? 1 : 2, .length = canvas.end(), .length_new = canvas.end()};
        if (finding_end_) {
            find_end(canvas);
        } else {
            const bool room = canvas.end() - first_ < n_max_;
            if (room && end_confidence_ < eos_expand_ && weakest_) {
                growth.at         = weakest_->position;
                growth.n_inserted = factor_;
                canvas.expand(growth.at, factor_, first_ + n_max_);
            }
            while (pos_ < canvas.end() && !canvas.has_masks(window(canvas))) {
                pos_ += block_length_;
            }
            finished_ = report.committed.empty() && growth.at < 0;
        }
        growth.length_new = canvas.end();
        report.growth     = growth;
    }

private:
    BlockSpan window(const Canvas & canvas) const { return {pos_, std::min(pos_ + block_length_, canvas.end())}; }

    // How sure the model is, at the end of the canvas, that the text is over: the mean over as many predicted end tokens as are checked,
    // those that are missing count as 0.
    double confidence_of_end(std::span<const Candidate> all) const {
        double  sum = 0.0;
        int32_t n   = 0;
        for (size_t i = all.size(); i > 0 && n < n_check_; i--) {
            const Candidate & c = all[i - 1];
            sum += c.id == eos_id_ ? static_cast<double>(c.prob) : 0.0;
            n += c.id == eos_id_ ? 1 : 0;
        }
        return sum / n_check_;
    }

    void find_end(Canvas & canvas) {
        const int32_t n = canvas.end() - first_;
        if (end_confidence_ < eos_first_ && n < n_max_) {
            canvas.append_masks(std::min(factor_, n_max_ - n));
            return;
        }
        canvas.append(std::min(n_check_ / 2, n_max_ - n), eos_id_);
        finding_end_ = false;
    }

    const int32_t n_max_; // tokens of the answer
    const int32_t first_;
    const int32_t block_length_;
    int32_t       eos_id_ = -1, factor_ = 0, n_check_ = 0;
    float         high_ = 0.0f, low_ = 0.0f;
    double        eos_first_ = 0.0, eos_expand_ = 0.0;

    bool                     finding_end_ = true;
    bool                     finished_    = false; // a step changed nothing
    int32_t                  pos_;                 // where the block begins
    double                   end_confidence_ = 0.0;
    std::optional<Candidate> weakest_;
};

} // namespace

std::unique_ptr<Schedule> make_growing(const DecodeSettings & settings, const GenerateParams & params,
                                       const Canvas & canvas) {
    return std::make_unique<Growing>(settings, params, canvas);
}

} // namespace buoy
