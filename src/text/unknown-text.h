#pragma once

#include <llama.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

// For SentencePiece vocabularies without byte tokens: libllama has no token for a character that they do not list, where the model's
// authors have <unk>. So such characters are tokenised as another one that belongs to no longer piece and thus always is a token of
// its own, and this token is then replaced.
class UnknownText {
public:
    // unknown_id: -1 where the file does not say; then the token of that type, if there is one.
    UnknownText(const llama_vocab * vocab, int32_t unknown_id);

    // Is there a need for it, and a way?
    bool is_needed() const { return unknown_ >= 0 && stand_in_ >= 0; }

    // The text without unknown characters, one stand-in for each run of them; and of all stand-ins in it, which are.
    std::pair<std::string, std::vector<bool>> replace(const std::string & text) const;

    // Their tokens become <unk>.
    void restore(const std::vector<bool> & is_unknown, int32_t * first, int32_t * last) const;

private:
    std::set<std::string> known_; // characters that are tokens
    std::string           stand_in_text_;
    int32_t               stand_in_ = -1;
    int32_t               unknown_;
};

} // namespace buoy
