#pragma once

#include "eval/item.h"

#include <memory>

namespace buoy {

// Watches the attention while an answer is written and keeps a few numbers of it (docs/evaluation.md):
// {"absorption": [L], "gold": [L] | null, "recall": percent | null, "retrieval": [L][H] | null, "regions": [R], "rollout": [R][R]}
// Costs one more pass per answer. What an AttentionEditor changes is seen.
std::unique_ptr<QaProbe> make_attention_probe(Context & context, const Vocab & vocab, const QaItem & item,
                                              const QaPrompt & prompt);

} // namespace buoy
