#pragma once

#include "decode/settings.h"

#include <algorithm>
#include <limits>
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
    int32_t mask_id() const { return mask_id_; }
    int32_t any_id() const { return mask_id_ == 0 ? 1 : 0; } // of a token that is not the mask
    int32_t token(int32_t position) const { return tokens_[static_cast<size_t>(position)]; }
    bool    is_masked(int32_t position) const { return tokens_[static_cast<size_t>(position)] == mask_id_; }
    bool    is_given(int32_t position) const { return position < n_given() && given_[static_cast<size_t>(position)]; }

    int32_t              first_masked() const;                 // the end where nothing is
    std::vector<int32_t> masked(const BlockSpan & span) const; // positions
    bool                 has_masks(const BlockSpan & span) const;
    bool                 has_token(int32_t id) const; // in what was written

    bool ended() const; // an end token with nothing masked before it
    bool is_stopped() const { return stopped_; }
    bool is_done() const { return stopped_ || ended(); }
    void stop() { stopped_ = true; }

    // Ends a step: position and token of what it writes. A position at the end makes the sequence longer.
    void    write(std::span<const std::pair<int32_t, int32_t>> tokens);
    int32_t n_written() const { return n_written_; } // by the last step

    // A canvas that finds its length. A mask becomes n; what then lies behind length_max is cut off.
    void expand(int32_t position, int32_t n, int32_t length_max);
    void append(int32_t n, int32_t id);
    void append_masks(int32_t n) { append(n, mask_id_); }

    // Masks from this position on are left as they are, and are part of the answer.
    void leave_masks(int32_t from) { left_ = std::min(left_, from); }

    // Positions from the beginning whose stored K/V are exact.
    int32_t n_stored() const { return n_stored_; }
    void    set_stored(int32_t n) { n_stored_ = n; }
    // Takes over what is stored of an earlier sequence, as far as it is the same.
    void reuse(std::span<const int32_t> stored, const DecodeSettings & settings);

    // Where an end token is in a finished block, nothing but that token follows it there, and nothing follows the block.
    void close(int32_t block_length);

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
    int32_t              left_      = std::numeric_limits<int32_t>::max();
    int32_t              n_stored_  = 0;
    int32_t              n_written_ = 0;
    bool                 stopped_   = false;
};

} // namespace buoy
