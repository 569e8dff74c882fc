#pragma once

#include "hf-config.h"
#include "io/gguf-writer.h"

namespace buoy {

// Tokenises a sample of many scripts by tokenizer.json's rules and through libllama with the keys of the file to be; an Error if
// they differ anywhere.
void check_tokenizer(const HfJson & tokenizer, const GgufWriter & header);

} // namespace buoy
