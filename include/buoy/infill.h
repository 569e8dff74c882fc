#pragma once

#include "buoy/vocab.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// Text with gaps, "The capital of [[2]] is Paris.": [[N]] stands for N masked tokens, everything else for itself. A space before a gap
// is part of the gap's first token, as tokenizers have it.
class Infill {
public:
    // A stretch of given text, then a gap of so many tokens; the last one has none.
    struct Part {
        std::string text;
        size_t      gap_count = 0;
        size_t      gap_first = 0; // its position
    };

    // parse_special: as Vocab::encode has it. Throws Error where there is no gap, or one of no or too many tokens.
    Infill(const Vocab & vocab, int32_t mask_id, const std::string & text, bool parse_special = false);

    // The same of parts, in which [[2]] is text like other text.
    Infill(const Vocab & vocab, int32_t mask_id, std::vector<Part> parts, bool parse_special = false);

    const std::vector<int32_t> & tokens() const { return tokens_; } // what was given as tokens, and the masks

    // Whether the only gap is the end of the text, so that an end token in it is one. Elsewhere it would only be missing text.
    bool ends_with_gap() const;

    const std::vector<Part> & parts() const { return parts_; }

    // Whether the space that a gap's first token may begin with is there already, as the last character of the text before it.
    bool has_space_before(size_t gap) const;

    // What stands in each gap of a sequence that began as tokens().
    std::vector<std::string> fills(const Vocab & vocab, const std::vector<int32_t> & sequence) const;

    // The text with its gaps filled; what was given is as it was, byte for byte.
    std::string filled(const Vocab & vocab, const std::vector<int32_t> & sequence) const;

private:
    std::vector<Part>    parts_;
    std::vector<int32_t> tokens_;
    int32_t              mask_id_;
    bool                 drops_space_ = false; // the tokenizer writes one before the first word of a text
};

} // namespace buoy
