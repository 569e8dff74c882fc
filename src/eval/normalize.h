#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buoy {

// A text as SQuAD's evaluation compares it: lower case, ASCII punctuation taken out, the articles a, an and the replaced by spaces,
// white space reduced to single spaces. Characters are what Python's str takes them for (lower, \b, split).
std::string normalized_answer(std::string_view text);

// Its words.
std::vector<std::string> normalized_words(std::string_view text);

} // namespace buoy
