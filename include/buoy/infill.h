#pragma once

#include "buoy/vocab.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// Text with gaps, "The capital of [[2]] is Paris.": [[N]] stands for N masked tokens, everything else for itself.
class Infill {
public:
    // Throws Error where there is no gap, or one of no or too many tokens.
    Infill(const Vocab & vocab, int32_t mask_id, const std::string & text);

    const std::vector<int32_t> & tokens() const { return tokens_; } // what was given as tokens, and the masks

    // The text with its gaps filled from a sequence that began as tokens(); what was given is as it was, byte for byte.
    std::string filled(const Vocab & vocab, const std::vector<int32_t> & sequence) const;

private:
    // A stretch of given text, then a gap; the last one has none.
    struct Part {
        std::string text;
        size_t      gap_first = 0;
        size_t      gap_count = 0;
    };

    std::vector<Part>    parts_;
    std::vector<int32_t> tokens_;
    int32_t              mask_id_;
};

} // namespace buoy
