#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct gguf_context;

namespace buoy::test {

// What a tokenizer-only GGUF file says, right or wrong; the writer checks nothing.
struct VocabGguf {
    std::string                        arch  = "no-such-architecture";
    std::string                        model = "gpt2";
    std::string                        pre   = "qwen2";
    std::vector<std::string>           tokens;
    std::vector<int32_t>               types;  // left out if empty
    std::vector<std::string>           merges; // left out if empty and the model is not gpt2
    std::map<std::string, std::string> strings;
    std::map<std::string, uint32_t>    ids; // bos, eos, mask, …
    std::map<std::string, bool>        flags;

    // Appends a token and returns its id. Types: 1 normal, 3 control, 4 user-defined.
    uint32_t add(const std::string & token, int32_t type = 1);

    void set_keys(gguf_context * gguf) const;
    void write(const std::string & path) const;
};

// The 256 bytes in GPT-2's alphabet, the merges "h e" and "Ġ t", and <|im_start|>, <|im_end|>, <|mask|>.
VocabGguf small_vocab();

// SentencePiece with <unk>, <s> and </s>; no other pieces yet.
VocabGguf sentencepiece_vocab();

void add_byte_pieces(VocabGguf & file); // <0x00> to <0xFF>

} // namespace buoy::test
