#pragma once

#include <llama.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace buoy {

// A stretch of text between special tokens, or one such token.
struct TextSegment {
    int32_t id    = -1; // the token, -1 for text
    size_t  first = 0;  // [first, last) in the text that was split
    size_t  last  = 0;
};

// The tokens that are looked for as text before anything is tokenised: control tokens where the caller allows them, the
// model's other added tokens everywhere.
class SpecialTokens {
public:
    explicit SpecialTokens(const llama_vocab * vocab);

    // May the control token that the text shows at [first, last) be taken for one?
    using Allowed = std::function<bool(size_t first, size_t last)>;

    // Leftmost longest match, as the authors' tokenizers do it.
    std::vector<TextSegment> split(const std::string & text, const Allowed & allowed) const;

    // The text with `guard` inside of everything that reads like a control token.
    std::string guarded(const std::string & text, const std::string & guard) const;

private:
    struct Entry {
        std::string text;
        int32_t     id      = -1;
        bool        control = false;
        bool        lstrip  = false; // swallows the white space before it
        bool        rstrip  = false; // … after it
    };
    const Entry * match(const std::string & text, size_t first, const Allowed & allowed) const;

    std::vector<Entry> entries_; // sorted by text, so that a common prefix is a range
};

} // namespace buoy
