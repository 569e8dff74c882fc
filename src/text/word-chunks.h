#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buoy {

// Does libllama split words for this tokenizer.ggml.pre in a loop of its own? For all others it uses std::regex, whose
// recursion overflows the stack on long runs of one kind of character.
bool splits_in_loop(const std::string & pre);

// Pieces of at most 4096 bytes for std::regex, cut before a space that follows and precedes other text, where every
// pre-tokenizer starts a new word; only a run without such a place is cut elsewhere.
std::vector<std::string_view> word_chunks(std::string_view text);

} // namespace buoy
