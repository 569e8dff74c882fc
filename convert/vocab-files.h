#pragma once

#include "hf-config.h"

#include <optional>
#include <string>

namespace buoy {

// What tokenizer.json would say, for checkpoints that only have vocab.json and merges.txt (Dream's do). Their rules are
// in the tokenizer's code, so its class must be one we know.
std::optional<HfJson> tokenizer_from_vocab_files(const std::string & dir);

} // namespace buoy
