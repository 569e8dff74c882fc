#pragma once

#include "buoy/generate.h"
#include "decode/random.h"

#include <optional>
#include <vector>

namespace buoy {

// Where the confidence of a sampled token comes from.
enum class ConfidenceOf {
    model,    // the softmax over the full vocabulary, as LLaDA takes it
    sampling, // the distribution that was sampled from, after temperature, top-k, top-p and min-p, as Dream takes it
};

// Chooses tokens from rows of logits on the host. At temperature 0 without a bias the device's summaries say the same, so
// nothing of this is needed.
class TokenChoice {
public:
    // n_threads: that share the rows of a pass; 0: one per core.
    TokenChoice(const GenerateParams & params, int32_t forbidden_id, ConfidenceOf confidence, int32_t n_threads = 0);

    // True where a row's summary is all that is needed.
    bool summary_is_enough() const;

    // Fills everything but position and score. step and position make the random numbers.
    Candidate choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position) const;
    Candidate choose(const RowSummary & row) const;

    // One row after the other for each position.
    std::vector<Candidate> choose(const std::vector<float> & logits, int32_t n_vocab, int32_t step,
                                  const std::vector<int32_t> & positions) const;

    // Threads for a pass of that many logits: a few rows are not worth many.
    size_t thread_count(size_t n_logits) const;

private:
    struct Tokens {
        std::vector<int32_t> ids;
        std::vector<float>   logits;   // relative to the largest, after bias and temperature
        std::vector<float>   weights;  // their exponentials
        std::vector<float>   tempered; // those that race (draw)
    };

    struct Totals {
        double weight = 0.0, weighted_logit = 0.0, first = 0.0, second = 0.0;
    };

    // tokens is room that is kept from row to row
    Candidate choose(const float * logits, int32_t n_vocab, int32_t step, int32_t position, Tokens & tokens) const;

    std::optional<Candidate> choose_plain(const float * logits, int32_t n_vocab, int32_t step, int32_t position,
                                          Tokens & room) const;
    std::optional<size_t>    race(const std::vector<float> & weights, int32_t step, int32_t position) const;

    bool   has_filters() const;
    void   read(const float * logits, int32_t n_vocab, Tokens & to) const;
    void   keep_likely(Tokens & tokens) const;                          // top-k, top-p, min-p
    size_t draw(Tokens & tokens, int32_t step, int32_t position) const; // an index
    size_t likeliest(const Tokens & tokens) const;

    static Totals measure(const Tokens & tokens);

    GenerateParams params_;
    int32_t        forbidden_;
    ConfidenceOf   confidence_;
    RandomSource   random_;
    int32_t        n_threads_;
};

} // namespace buoy
