#pragma once

#include "hf-config.h"

#include <string>

namespace buoy {

enum class TokenizerKind {
    byte_level, // GPT-2's alphabet of bytes; libllama's "gpt2"
    spm,        // "▁" for spaces and <0xXX> for bytes; libllama's "llama"
    whole_text, // the same, merged by rank over the whole text; libllama's "gemma4"
};

struct PreTokenizer {
    TokenizerKind kind = TokenizerKind::byte_level;
    std::string   name;       // tokenizer.ggml.pre; empty: none
    std::string   normalizer; // tokenizer.ggml.normalizer: "none" or "nfc"; ours, upstream has no such key
    bool          prefix_space = false;
    bool needs_merges = false; // libllama takes a whole word that is a token, the file merges: must be the same
};

// Recognises the splitting rules of a tokenizer.json by their patterns, so that a new model with an old tokenizer needs
// nothing from us. Unknown rules are an Error that shows them and lists the known names.
PreTokenizer recognise_pre_tokenizer(const HfJson & tokenizer);

// Qwen2's splitting pattern, for tokenizers that have it in code.
std::string qwen2_pattern();

} // namespace buoy
