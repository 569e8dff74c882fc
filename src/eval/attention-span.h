#pragma once

#include "buoy/vocab.h"
#include "eval/item.h"

#include <cstddef>
#include <string>
#include <vector>

namespace buoy {

// Positions of a prompt's region, ascending; empty without it.
std::vector<size_t> positions_of(const QaPrompt & prompt, const std::string & region);

// Where the gold passages say the answer.
struct AnswerSpan {
    std::vector<size_t> positions; // empty: none of the right answers stands there
    std::string         text;      // of these tokens
};

// The first place of the first right answer that stands in a gold passage, whatever the case of ASCII letters.
AnswerSpan find_answer_span(const Vocab & vocab, const QaItem & item, const QaPrompt & prompt);

} // namespace buoy
