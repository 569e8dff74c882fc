#pragma once

#include "decode/method-settings.h"
#include "decode/schedule.h"

namespace buoy {

// What a rule is made of.
struct RuleParams {
    const ModelInfo &      info;
    const DecodeSettings & settings;
    const GenerateParams & params;

    SettingReader constants() const { return {params, settings.shift}; }
};

// What a rule sees of a step.
struct RuleInput {
    const Canvas &             canvas; // before anything is written
    const Pass &               pass;
    std::span<const Candidate> candidates; // one for each position asked about, in that order
    const ForwardResult &      result;     // behind their rows, those of the pass's shadow
    int32_t                    n_vocab   = 0;
    int32_t                    n_threads = 1; // that this much work is worth
};

// Chooses what a step writes where a score and a count are not enough: what depends on other positions, on earlier steps or on the
// attention. Lives as long as its sequence.
class Rule {
public:
    virtual ~Rule() = default;

    virtual bool needs_logits() const { return false; } // instead of summaries
    virtual bool takes_back() const { return false; }   // what it wrote, while its block has masks

    // Adds to a pass what the rule wants to see of it.
    virtual void prepare(const Canvas & /*canvas*/, Pass & /*pass*/) {}

    // What is written: some of the candidates. The mask's id takes a token back.
    virtual std::vector<Candidate> select(const RuleInput & in) = 0;

    // Numbers that the choice rests on, by name, of the last step; for whoever checks them.
    virtual std::vector<Measure> measured() const { return {}; }
};

// Null where score and count decide.
std::unique_ptr<Rule> make_rule(const ModelInfo & info, const DecodeSettings & settings, const GenerateParams & params);

// One for each algorithm that has a rule.
std::unique_ptr<Rule> make_localleap(const RuleParams & in);
std::unique_ptr<Rule> make_plus_one(const RuleParams & in);
std::unique_ptr<Rule> make_klass(const RuleParams & in);
std::unique_ptr<Rule> make_dawn(const RuleParams & in);
std::unique_ptr<Rule> make_wino(const RuleParams & in);

// The most confident; ties by position. There must be one.
const Candidate & most_confident(std::span<const Candidate> candidates);
// The n most confident of them, largest first.
std::vector<Candidate> most_confident(std::vector<Candidate> candidates, size_t n);
// Those that may be written: masked positions of the pass's block and before it.
std::vector<Candidate> writable(const RuleInput & in);

} // namespace buoy
