#pragma once

#include "decode/settings.h"

#include <span>
#include <utility>
#include <vector>

namespace buoy {

// A sequence being written: what was given, what is masked or not there yet, what the store holds of it. Knows no model.
class Canvas {
public:
    // n_ctx: a block-causal model's canvas has whole blocks where the context has room for them.
    Canvas(const Traits & traits, const DecodeSettings & settings, const std::vector<int32_t> & prompt,
           const GenerateParams & params, int32_t n_ctx);

    int32_t first() const { return first_; } // the first position to be written
    int32_t end() const { return static_cast<int32_t>(tokens_.size()); }
    int32_t wanted() const { return wanted_; } // what lies behind only completes a block
    int32_t token(int32_t position) const { return tokens_[static_cast<size_t>(position)]; }
    bool    is_masked(int32_t position) const { return tokens_[static_cast<size_t>(position)] == mask_id_; }
    bool    is_given(int32_t position) const { return position < n_given() && given_[static_cast<size_t>(position)]; }

    std::vector<int32_t> masked(const BlockSpan & span) const; // positions
    bool                 has_masks(const BlockSpan & span) const;

    bool ended() const; // an end token with nothing masked before it
    bool is_stopped() const { return stopped_; }
    bool is_done() const { return stopped_ || ended(); }
    void stop() { stopped_ = true; }

    // Ends a step: position and token of what it writes. A position at the end makes the sequence longer.
    void    write(std::span<const std::pair<int32_t, int32_t>> tokens);
    int32_t n_written() const { return n_written_; } // by the last step

    // Positions from the beginning whose stored K/V are exact.
    int32_t n_stored() const { return n_stored_; }
    void    set_stored(int32_t n) { n_stored_ = n; }
    // Takes over what is stored of an earlier sequence, as far as it is the same.
    void reuse(std::span<const int32_t> stored, const DecodeSettings & settings);

    const std::vector<int32_t> & tokens() const { return tokens_; }
    std::vector<int32_t>         answer() const; // what was written, up to an end token

private:
    int32_t n_given() const { return static_cast<int32_t>(given_.size()); }
    bool is_end(int32_t position) const; // an end token of the answer: in a gap of the prompt it is a token like others

    int32_t              mask_id_;
    std::vector<int32_t> end_ids_;
    std::vector<int32_t> tokens_;
    std::vector<bool>    given_; // part of the prompt
    int32_t              wanted_;
    int32_t              first_;
    int32_t              answer_; // behind the last given token
    int32_t              n_stored_  = 0;
    int32_t              n_written_ = 0;
    bool                 stopped_   = false;
};

} // namespace buoy
