// LocalLeap (as in the DAWN repository), and what all rules share.

#include "decode/adaptive-cache.h"

#include <algorithm>
#include <cstdlib>

namespace buoy {

namespace {

bool is_surer(const Candidate & a, const Candidate & b) {
    return a.prob != b.prob ? a.prob > b.prob : a.position < b.position;
}

// A position near one that the model is sure of needs less confidence.
class LocalLeap : public Rule {
public:
    explicit LocalLeap(const RuleParams & in)
        : threshold_(*in.settings.threshold), relaxed_(static_cast<float>(in.constants().number("relaxed_threshold"))),
          radius_(in.constants().whole("radius")) {}

    std::vector<Candidate> select(const RuleInput & in) override {
        const std::vector<Candidate> all  = writable(in);
        const Candidate &            best = most_confident(all);
        std::vector<Candidate>       written;
        for (const Candidate & c : all) {
            const bool near = std::any_of(all.begin(), all.end(), [&](const Candidate & other) {
                return other.prob >= threshold_ && std::abs(other.position - c.position) <= radius_;
            });
            if (c.position == best.position || c.prob >= (near ? relaxed_ : threshold_)) {
                written.push_back(c);
            }
        }
        return written;
    }

private:
    const float   threshold_;
    const float   relaxed_;
    const int32_t radius_;
};

// Ours: what the model is sure of hardly changes the rest, so the step also writes what a step without it would.
class PlusOne : public Rule {
public:
    explicit PlusOne(const RuleParams & in) : threshold_(*in.settings.threshold) {}

    std::vector<Candidate> select(const RuleInput & in) override {
        std::vector<Candidate> all = writable(in);
        const auto             n_sure =
            std::count_if(all.begin(), all.end(), [this](const Candidate & c) { return c.prob >= threshold_; });
        return most_confident(std::move(all), static_cast<size_t>(n_sure) + 1);
    }

private:
    const float threshold_;
};

} // namespace

const Candidate & most_confident(std::span<const Candidate> candidates) {
    return *std::min_element(candidates.begin(), candidates.end(), is_surer);
}

std::vector<Candidate> most_confident(std::vector<Candidate> candidates, size_t n) {
    std::sort(candidates.begin(), candidates.end(), is_surer);
    candidates.resize(std::min(candidates.size(), n));
    return candidates;
}

std::vector<Candidate> writable(const RuleInput & in) {
    std::vector<Candidate> found;
    std::copy_if(in.candidates.begin(), in.candidates.end(), std::back_inserter(found),
                 [&](const Candidate & c) { return c.position < in.pass.span.to && in.canvas.is_masked(c.position); });
    return found;
}

std::unique_ptr<Rule> make_localleap(const RuleParams & in) { return std::make_unique<LocalLeap>(in); }

std::unique_ptr<Rule> make_plus_one(const RuleParams & in) { return std::make_unique<PlusOne>(in); }

std::unique_ptr<Rule> make_rule(const ModelInfo & info, const DecodeSettings & settings,
                                const GenerateParams & params) {
    const AlgorithmRow & row       = algorithm_row(settings.algorithm);
    const bool           certainty = (settings.cache == DiffusionCache::d2 || settings.cache == DiffusionCache::dllm) &&
                           settings.algorithm == Algorithm::confidence && !params.factor;
    const auto make = row.rule != nullptr ? row.rule : certainty ? make_certainty : nullptr;
    return make == nullptr || params.scorer ? nullptr : make({info, settings, params});
}

} // namespace buoy
