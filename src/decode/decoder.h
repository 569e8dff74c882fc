#pragma once

#include "decode/rule.h"
#include "decode/token-choice.h"

#include <chrono>

namespace buoy {

// Where a decoder's K/V are: sequences of the context. The second is for guidance.
struct DecoderPlace {
    int32_t sequence      = 0;
    int32_t unconditional = 1;
};

// One sequence being generated. Says what it wants computed and takes what came out, so that whoever drives it may compute the
// passes of many sequences at once.
class Decoder {
public:
    // stored: tokens whose K/V an earlier sequence left in the store. Throws Error where settings or prompt can't be carried out.
    Decoder(const Context & context, const DecoderPlace & place, const std::vector<int32_t> & prompt,
            const GenerateParams & params, std::span<const int32_t> stored = {}, ScheduleMaker make = make_schedule);

    Decoder(const Decoder &)             = delete;
    Decoder & operator=(const Decoder &) = delete;

    // Before the first pass: what it does not take over is forgotten.
    void begin(Context & context) const;

    // Adds what is computed next to a batch: one request, or two where guidance needs a second sequence. False: the sequence is finished.
    bool next(std::vector<ForwardRequest> & batch);
    // The result of the first of them.
    void take(const ForwardResult & result);

    // Whether its passes can't be computed together with others'.
    bool is_alone() const {
        return settings_.cache == DiffusionCache::elastic || settings_.cache == DiffusionCache::dllm;
    }

    Generation finish();

    // Positions from the beginning that no later step changes.
    int32_t n_final() const { return n_final_; }

    // The tokens whose K/V are exact in the store.
    std::vector<int32_t> stored() const;

private:
    int32_t        step() const { return static_cast<int32_t>(out_.steps.size()); }
    ForwardRequest make_request() const;
    void           add_shadow(ForwardRequest & request) const;
    ForwardRequest make_unconditional(const ForwardRequest & request) const;

    std::vector<Candidate> choose(const ForwardResult & result);
    // Of the candidates, those that are written now.
    std::vector<Candidate> select(std::vector<Candidate> candidates) const;
    std::vector<Candidate> select_by_rule(const std::vector<Candidate> & candidates, const ForwardResult & result);
    RuleInput              rule_input(const std::vector<Candidate> & candidates, const ForwardResult & result) const;
    std::vector<Candidate> take_edits(std::vector<Candidate> & candidates) const;
    Writes                 tokens_of(const std::vector<Candidate> & written) const; // and what the pass writes besides
    void   commit(Writes written, bool decided); // decided: by the schedule, which may write over what it wrote
    double elapsed_ms() const;

    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

    const ModelInfo             info_;
    const DecoderPlace          place_;
    const GenerateParams        params_; // n_predict resolved
    const DecodeSettings        settings_;
    const TokenChoice           choice_;
    const RandomSource          random_;
    const std::unique_ptr<Rule> own_rule_; // null: by score and count
    const OutputKind            output_;
    Canvas                      canvas_;
    std::unique_ptr<Schedule>   schedule_;
    Rule *                      rule_ = nullptr; // the schedule's or our own; null: by score and count

    std::optional<Pass>                     pass_;       // being computed
    std::vector<std::pair<int32_t, float>>  confidence_; // of this step
    std::vector<Measure>                    measured_;   // the same
    std::optional<int32_t>                  reset_layer_;
    std::map<int32_t, std::vector<int32_t>> refreshed_;
    Generation                              out_;
    int32_t                                 n_final_ = 0;
};

} // namespace buoy
