#include "support/vocab-kinds.h"

#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <cstdio>
#include <fstream>
#include <iterator>

namespace buoy::test {

namespace {

void erase_key(GgufBytes & file, const std::string & key) {
    std::erase_if(file.pairs, [&](const GgufBytes::Pair & pair) { return pair.key == key; });
}

template <typename T> std::string bytes_of(const std::vector<T> & values) {
    std::string bytes;
    for (const T value : values) {
        bytes += le(value);
    }
    return bytes;
}

GgufBytes as_bytes(const VocabGguf & vocab) {
    const std::string path = temp_dir() + "/vocab.gguf";
    vocab.write(path);
    std::ifstream in(path, std::ios::binary);
    return parse_gguf({std::istreambuf_iterator<char>(in), {}});
}

// Pieces with their scores, as SentencePiece and its like have them.
GgufBytes scored(const std::string & model, VocabGguf vocab, bool with_bytes) {
    if (with_bytes) {
        add_byte_pieces(vocab);
    }
    for (const char * piece : {"\xE2\x96\x81", "a", "b",
                               "\xE2\x96\x81"
                               "a",
                               "ab", "\n", "c"}) {
        vocab.add(piece);
    }
    vocab.model             = model;
    vocab.pre               = "default";
    GgufBytes          file = as_bytes(vocab);
    std::vector<float> scores;
    for (size_t i = 0; i < vocab.tokens.size(); i++) {
        scores.push_back(-static_cast<float>(i));
    }
    put_floats(file, "tokenizer.ggml.scores", scores);
    return file;
}

} // namespace

void put_text(GgufBytes & file, const std::string & key, const std::string & value) {
    erase_key(file, key);
    file.text(key, value);
}

void put_texts(GgufBytes & file, const std::string & key, const std::vector<std::string> & values) {
    erase_key(file, key);
    file.texts(key, values);
}

void put_ints(GgufBytes & file, const std::string & key, const std::vector<int32_t> & values) {
    erase_key(file, key);
    file.array(key, GGUF_TYPE_INT32, values.size(), bytes_of(values));
}

void put_floats(GgufBytes & file, const std::string & key, const std::vector<float> & values) {
    erase_key(file, key);
    file.array(key, GGUF_TYPE_FLOAT32, values.size(), bytes_of(values));
}

void put_id(GgufBytes & file, const std::string & name, uint32_t id) {
    erase_key(file, "tokenizer.ggml." + name + "_token_id");
    file.u32("tokenizer.ggml." + name + "_token_id", id);
}

std::vector<std::string> texts_of(GgufBytes & file, const std::string & key) {
    const std::string        value = file.pair(key).value; // item type, count, then each with its length
    std::vector<std::string> out;
    for (size_t at = 12; at < value.size();) {
        uint64_t length = 0;
        std::memcpy(&length, value.data() + at, sizeof(length));
        out.push_back(value.substr(at + 8, length));
        at += 8 + length;
    }
    return out;
}

std::vector<std::string> vocab_kinds() {
    return {"gpt2",
            "llama",
            "bert",
            "t5",
            "rwkv",
            "plamo2",
            "test",
            "gemma4",
            "hybriddna",
            "whitespace",
            "gpt2/gemma4",
            "gpt2/whitespace",
            "gpt2/sarvam-moe",
            "gemma4/bytes"};
}

GgufBytes vocab_of(const std::string & kind) {
    const std::string model = kind.substr(0, kind.find('/'));
    if (model == "llama" || model == "t5" || model == "plamo2") {
        return scored(model, sentencepiece_vocab(), true);
    }
    VocabGguf vocab = small_vocab();
    vocab.model     = model;
    vocab.pre       = kind == model ? (model == "whitespace" ? "whitespace" : "gpt-2") : kind.substr(model.size() + 1);
    if (model == "bert") {
        vocab       = VocabGguf();
        vocab.model = "bert";
        vocab.pre   = "default";
        for (const char * token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
            vocab.add(token, 3);
        }
        for (const char * token : {"\xE2\x96\x81"
                                   "a",
                                   "b",
                                   "\xE2\x96\x81"
                                   "the",
                                   "s"}) {
            vocab.add(token);
        }
        vocab.ids = {{"bos", 2}, {"unknown", 1}, {"seperator", 3}, {"padding", 0}, {"mask", 4}};
    }
    if (kind == "gemma4/bytes") {
        add_byte_pieces(vocab);
    }
    if (model == "rwkv") {
        vocab       = VocabGguf();
        vocab.model = "rwkv";
        vocab.add("<s>", 3);
        for (int byte = 0; byte < 256; byte++) {
            char token[8];
            std::snprintf(token, sizeof(token), "\\x%02x", static_cast<unsigned>(byte));
            vocab.add(token);
        }
        vocab.add("ab");
    }
    vocab.merges = model == "bert" || model == "rwkv" ? std::vector<std::string>{} : vocab.merges;
    return as_bytes(vocab);
}

} // namespace buoy::test
