#pragma once

#include "io/gguf-file.h"

#include <cstdint>
#include <string>

namespace buoy {

// What a GGUF file says about its tokenizer, checked: whatever libllama would abort on, or misread without a word, is an
// Error here that names the key.
struct VocabKeys {
    std::string model;    // tokenizer.ggml.model: gpt2 is byte-level BPE, llama SentencePiece, …
    std::string pre;      // tokenizer.ggml.pre, may be empty
    bool checked = false; // nothing in the file makes libllama's tokenizer abort; else it is asked in another process
    int32_t     n_tokens = 0;
    int32_t     bos      = -1;
    int32_t     eos      = -1;
    int32_t     mask     = -1;
    int32_t     unknown  = -1;
    bool        nfc      = false; // the text is normalised before it is tokenised
    std::string chat_template;    // may be empty
};

VocabKeys read_vocab_keys(const GgufFile & gguf);

} // namespace buoy
