#pragma once

#include "eval/condition.h"

#include <memory>
#include <string>
#include <vector>

namespace buoy {

// Edits of the attention that are conditions by their name alone. What they are depends on the model's kind: an autoregressive
// model's pass over one token says nothing about its sinks, so those of the prompt's pass count.
struct ReadyEdit {
    const char *              name;
    const char *              help;
    std::vector<const char *> diffusion;
    std::vector<const char *> autoregressive;
};

const std::vector<ReadyEdit> & ready_edits();

// Carries a condition's edits through the generation of one answer. They may name the prompt's regions, a region that this prompt
// does not have (gold where there is none) has no positions, and "writing" are the rows that write the answer. Null: the condition
// has no edits. Throws Error where the engine edits nothing.
std::unique_ptr<AttentionEditor> make_qa_editor(const QaCondition & condition, const Context & context,
                                                const QaPrompt & prompt, const GenerateParams & params);

} // namespace buoy
