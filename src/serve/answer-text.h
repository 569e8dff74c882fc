#pragma once

#include "buoy/text-stream.h"
#include "serve/completion-request.h"

#include <optional>
#include <string>
#include <vector>

namespace buoy::serve {

inline constexpr const char * mask_text = "░"; // a position that is not written yet

// The text of one answer while its tokens are written, in whatever order that happens.
class AnswerText {
public:
    AnswerText(const ServedModel & model, const Prompt & prompt, const GenerateParams & params,
               const std::vector<std::string> & stop);

    // Takes the sequence after a step, of which so many positions are final. Returns text that is final and was not returned before;
    // what may be the beginning of a stop text is held back.
    std::string advance(const std::vector<int32_t> & tokens, int32_t n_final);
    // Nothing more comes: the rest.
    std::string finish(const std::vector<int32_t> & tokens);

    bool                is_stopped() const { return stopped_; }  // at a stop text, which is no part of it
    const std::string & stop_text() const { return stop_text_; } // which one
    bool                is_ended() const { return ended_; }      // at an end token
    const std::string & text() const { return text_; }
    int32_t             n_tokens() const { return n_written_; } // that were written, not given

    // The text as it is now, a mask where nothing is written.
    std::string whole(const std::vector<int32_t> & tokens) const;

    // The tokens of the answer, up to the end of what was asked for.
    std::vector<int32_t> answer(const std::vector<int32_t> & tokens) const;
    int32_t              first() const { return first_; } // their first position

private:
    bool        is_end(int32_t position, int32_t id) const;
    int32_t     end_of(const std::vector<int32_t> & tokens) const;
    std::string push(int32_t id);
    void        look_for_stop(size_t from);
    size_t      n_safe() const; // bytes that can't be part of a stop text

    const Vocab &            vocab_;
    int32_t                  mask_id_;
    std::vector<int32_t>     end_ids_;
    std::vector<std::string> stop_;
    int32_t                  first_;
    int32_t                  end_;      // one behind the last position wanted
    int32_t                  end_from_; // where an end token ends the text: behind everything given
    std::vector<bool>        given_;    // of the canvas, from the first position on
    bool                     in_gap_;
    bool has_space_; // of a gap: the text before it ends with the space that its first token may hold

    std::optional<TextStream> stream_; // none in a gap
    std::string               held_;   // of a gap: bytes of a character that is not complete
    bool                      started_ = false;
    std::string               text_;
    size_t                    n_sent_    = 0;
    int32_t                   next_      = 0; // position
    int32_t                   n_written_ = 0;
    std::string               stop_text_;
    bool                      stopped_ = false;
    bool                      ended_   = false;
};

} // namespace buoy::serve
