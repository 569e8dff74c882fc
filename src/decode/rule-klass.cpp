// KLASS: a position is written once its distribution has settled, that is, once the Kullback-Leibler divergence between the last passes
// is small, and the model is confident.

#include "base/split-work.h"
#include "decode/rule.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

namespace buoy {

namespace {

enum class Unmask { all, max_conf, min_kl };

class Klass : public Rule {
public:
    explicit Klass(const RuleParams & in)
        : shift_(in.settings.shift), conf_(static_cast<float>(in.constants().number("conf_threshold"))),
          kl_(in.constants().number("kl_threshold")),
          n_history_(static_cast<size_t>(in.constants().whole("kl_history_length"))),
          unmask_(static_cast<Unmask>(in.constants().whole("unmask_strategy"))) {}

    bool needs_logits() const override { return true; }

    // Later blocks too: what is known of them counts when their turn comes.
    void prepare(const Canvas & canvas, Pass & pass) override {
        const int32_t first = shift_ && pass.from > 0 ? pass.from + 1 : pass.from;
        pass.asked          = canvas.masked({std::max(first, canvas.first()), pass.to});
        step_               = pass.block == block_ ? step_ + 1 : 0;
        block_              = pass.block;
    }

    std::vector<Candidate> select(const RuleInput & in) override {
        observe(in);
        std::vector<Candidate> all = writable(in), ready;
        // without a shift the history must be one of this block's own steps
        const bool young = !shift_ && step_ + 1 < static_cast<int32_t>(n_history_);
        std::copy_if(all.begin(), all.end(), std::back_inserter(ready), [&](const Candidate & c) {
            const bool sure = shift_ ? c.prob >= conf_ : c.prob > conf_;
            return !young && sure && is_settled(c.position);
        });
        if (ready.empty()) {
            return most_confident(std::move(all), static_cast<size_t>(in.pass.due));
        }
        switch (unmask_) {
            case Unmask::all: return ready;
            case Unmask::max_conf: return most_confident(std::move(ready), 1);
            case Unmask::min_kl: break;
        }
        return {*std::min_element(ready.begin(), ready.end(), [&](const Candidate & a, const Candidate & b) {
            return seen_.at(a.position).divergence.back() < seen_.at(b.position).divergence.back();
        })};
    }

private:
    struct Position {
        std::vector<float> probs;      // [V], of the last pass; empty: none yet
        std::deque<double> divergence; // from the pass before; the last n_history
    };

    bool is_settled(int32_t position) const {
        const std::deque<double> & last = seen_.at(position).divergence;
        return std::all_of(last.begin(), last.end(), [this](double value) { return value < kl_; });
    }

    void observe(const RuleInput & in) {
        std::erase_if(seen_, [&](const auto & entry) { return !in.canvas.is_masked(entry.first); });
        std::vector<Position *> positions;
        for (const Candidate & c : in.candidates) {
            positions.push_back(&seen_[c.position]);
        }
        const auto V = static_cast<size_t>(in.n_vocab);
        split_work(static_cast<int64_t>(positions.size()), in.n_threads, [&](int, int64_t first, int64_t last) {
            for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); i++) {
                add_pass(*positions[i], {in.result.logits.data() + i * V, V});
            }
        });
    }

    // Σ p·(ln(p + 1e-12) − ln(q + 1e-12)), q = 0 before the first pass
    void add_pass(Position & position, std::span<const float> logits) const {
        std::vector<float> & q       = position.probs;
        const auto           largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
        double               total = 0.0, divergence = 0.0;
        for (const float logit : logits) {
            total += std::exp(static_cast<double>(logit) - largest);
        }
        q.resize(logits.size());
        for (size_t v = 0; v < logits.size(); v++) {
            const double p = std::exp(static_cast<double>(logits[v]) - largest) / total;
            divergence += p * (std::log(p + 1e-12) - std::log(static_cast<double>(q[v]) + 1e-12));
            q[v] = static_cast<float>(p);
        }
        position.divergence.resize(n_history_); // zeros at first
        position.divergence.pop_front();
        position.divergence.push_back(divergence);
    }

    const bool   shift_;
    const float  conf_;
    const double kl_;
    const size_t n_history_;
    const Unmask unmask_;

    std::map<int32_t, Position> seen_;
    int32_t                     block_ = -1;
    int32_t                     step_  = 0; // of the block
};

} // namespace

std::unique_ptr<Rule> make_klass(const RuleParams & in) { return std::make_unique<Klass>(in); }

} // namespace buoy
