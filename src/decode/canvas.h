#pragma once

#include "buoy/generate.h"
#include "decode/candidate.h"
#include "decode/token-choice.h"

#include <vector>

namespace buoy {

// Prompt and masks: what is being denoised, how the model is asked about it, and what was written when.
class Canvas {
public:
    // block_length: of block-causal attention, whose canvas has whole blocks where the context has room for them; else 0.
    Canvas(Context & context, const std::vector<int32_t> & prompt, const GenerateParams & params, int32_t block_length);

    int32_t first() const { return first_; } // the first mask
    int32_t end() const { return static_cast<int32_t>(tokens_.size()); }
    int32_t wanted() const { return wanted_; } // what lies behind only completes a block
    int32_t token(int32_t position) const { return tokens_[static_cast<size_t>(position)]; }
    bool    is_masked(int32_t position) const { return tokens_[static_cast<size_t>(position)] == traits_.mask_id; }

    std::vector<int32_t> masked(int32_t from, int32_t to) const; // positions
    bool                 ended() const;                          // an end token with nothing masked before it
    bool                 is_stopped() const { return out_.stopped; }
    bool                 is_done() const { return out_.stopped || ended(); }
    bool                 shift() const { return traits_.shift; }
    bool                 is_given(int32_t position) const { return given_[static_cast<size_t>(position)]; }

    // A forward pass over [from, to) of the canvas: what the model would write at the given positions. With a store, what lies
    // outside is taken from earlier passes. A shifted model's row for a position, the one before it, must lie inside.
    std::vector<Candidate> ask(const std::vector<int32_t> & positions, int32_t from, int32_t to, KvUse kv);
    std::vector<Candidate> ask_all(const std::vector<int32_t> & positions) {
        return ask(positions, 0, end(), KvUse::none);
    }

    // A forward pass that only stores [from, to).
    void store(int32_t from, int32_t to);
    // Positions from the beginning whose stored K/V are exact: at first what an earlier generation left, then what is told.
    int32_t n_stored() const { return n_stored_; }
    void    set_stored(int32_t n) { n_stored_ = n; }
    // Between passes over a long prompt: share of it that is done.
    void report_prompt(float done) { out_.stopped = params_.on_prompt && !params_.on_prompt(done); }
    void set_prompt_ms(double ms) { out_.prompt_ms = ms; }

    // Writes the first n and ends the step.
    void commit(const std::vector<Candidate> & ranked, int32_t n, int32_t block);

    int32_t    step() const { return static_cast<int32_t>(out_.steps.size()); }
    Generation finish();

private:
    bool is_end(int32_t position) const; // an end token of the answer: in a gap of the prompt it is a token like others
    ForwardRequest        make_request(int32_t from, int32_t to, KvUse kv) const;
    const ForwardResult & forward(ForwardRequest request);

    Context &                              context_;
    const GenerateParams &                 params_;
    const Traits                           traits_;
    TokenChoice                            choice_;
    std::vector<int32_t>                   tokens_;
    std::vector<bool>                      given_; // part of the prompt, hidden from the unconditional branch
    int32_t                                block_length_;
    int32_t                                wanted_;
    int32_t                                n_stored_ = 0;
    int32_t                                first_;
    int32_t                                answer_; // behind the last given token
    OutputKind                             output_;
    std::vector<std::pair<int32_t, float>> confidence_; // of this step
    Generation                             out_;
};

} // namespace buoy
