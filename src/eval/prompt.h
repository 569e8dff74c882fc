#pragma once

#include "buoy/vocab.h"
#include "eval/item.h"
#include "eval/template.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

struct PromptRules {
    bool    raw       = false; // no chat template
    int32_t n_predict = 0;     // positions of the answer
    int32_t n_max     = 0;     // positions that prompt and answer may have
};

// The question with these passages as tokens, with its regions. Where they are too long for the context, the longest passages lose
// words from their ends until all fits: no passage keeps more words than another one had to give up.
QaPrompt make_qa_prompt(const Vocab & vocab, const PromptTemplate & form, const PromptRules & rules,
                        const std::string & question, std::vector<QaPassage> passages);

// The first words of a text, with what stands between them.
std::string first_words(const std::string & text, size_t n_words);
size_t      word_count(const std::string & text);

} // namespace buoy
