// Vocabularies of every kind: loading, encoding, decoding. libllama's assertions are not reached, or in another process.

#include "gguf-mutate.h"
#include "mutate.h"
#include "target.h"

#include "buoy/vocab.h"
#include "support/vocab-kinds.h"

#include <algorithm>
#include <array>

namespace buoy::fuzz {

namespace {

using namespace buoy::test;

constexpr const char * tokens_key = "tokenizer.ggml.tokens";

std::vector<std::string> seeds() {
    std::vector<std::string> files;
    for (const std::string & kind : vocab_kinds()) {
        files.push_back(vocab_of(kind).build());
    }
    return files;
}

template <typename T, size_t N> const T & any(const std::array<T, N> & list, Random & random) {
    return list[below(random, N)];
}

std::string odd_text(Random & random, const std::vector<std::string> & tokens) {
    static const std::array<std::string, 22> texts{"",
                                                   " ",
                                                   "  ",
                                                   "\n",
                                                   std::string("\0", 1),
                                                   std::string("a\0", 2),
                                                   "\xff",
                                                   "\xe2\x96\x81",
                                                   "<0x41>",
                                                   "<0xzz>",
                                                   "<0x",
                                                   "[EMPTY_3]",
                                                   "<|im_end|>",
                                                   "</s>",
                                                   "\\x4",
                                                   "\\xff",
                                                   "\\",
                                                   "'",
                                                   "\xe2\x96",
                                                   "a b",
                                                   "\xee\x80\x80",
                                                   "<oov>"};
    switch (below(random, 4)) {
        case 0: return any(texts, random);
        case 1: return tokens[below(random, tokens.size())];
        case 2: return tokens[below(random, tokens.size())] + any(texts, random);
        default: {
            std::string text(below(random, 12), '\0');
            for (char & c : text) {
                c = static_cast<char>(below(random, 256));
            }
            return text;
        }
    }
}

void mutate_tokens(GgufBytes & file, Random & random) {
    std::vector<std::string> tokens = texts_of(file, tokens_key);
    for (uint64_t i = 0; i <= below(random, 4) && !tokens.empty(); i++) {
        switch (below(random, 4)) {
            case 0: tokens.push_back(odd_text(random, tokens)); break;
            case 1: tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(below(random, tokens.size()))); break;
            default: tokens[below(random, tokens.size())] = odd_text(random, tokens);
        }
    }
    put_texts(file, tokens_key, tokens);
    if (below(random, 2) == 0) {
        std::vector<int32_t> types;
        for (size_t i = 0; i < tokens.size(); i++) {
            types.push_back(below(random, 8) == 0 ? static_cast<int32_t>(below(random, 9)) - 1 : 1);
        }
        put_ints(file, "tokenizer.ggml.token_type", types);
    }
}

void mutate_merges(GgufBytes & file, Random & random) {
    const std::vector<std::string> tokens = texts_of(file, tokens_key);
    std::vector<std::string>       merges;
    for (uint64_t i = 0; i < below(random, 6) && !tokens.empty(); i++) {
        merges.push_back(odd_text(random, tokens) + " " + odd_text(random, tokens));
    }
    put_texts(file, "tokenizer.ggml.merges", merges);
}

void mutate_keys(GgufBytes & file, Random & random) {
    static const std::array<std::string, 17> names{"bos",     "eos",     "eot",     "eom",     "unknown", "seperator",
                                                   "padding", "mask",    "fim_pre", "fim_suf", "fim_mid", "fim_pad",
                                                   "fim_rep", "fim_sep", "prefix",  "suffix",  "middle"};
    static const std::array<uint32_t, 6>     ids{0, 1, 5, 300, 0x7fffffff, 0xffffffff};
    static const std::array<std::string, 12> pres{"default",    "gpt-2",  "llama-bpe", "qwen2", "gemma4", "whitespace",
                                                  "sarvam-moe", "tekken", "kimi-k2",   "bloom", "falcon", "gpt-4o"};
    static const std::array<std::string, 11> models{"gpt2", "llama",  "bert",      "t5",         "rwkv",   "plamo2",
                                                    "test", "gemma4", "hybriddna", "whitespace", "unknown"};
    static const std::array<float, 6>        scores{0.0f, -1.0f, 1e38f, -1e38f, 3.4e38f * 10, 0.0f / 1e-40f};
    switch (below(random, 6)) {
        case 0: put_id(file, any(names, random), any(ids, random)); break;
        case 1: put_text(file, "tokenizer.ggml.pre", any(pres, random)); break;
        case 2: put_text(file, "tokenizer.ggml.model", any(models, random)); break;
        case 3: {
            std::vector<float> values(below(random, 600));
            for (float & value : values) {
                value = any(scores, random);
            }
            put_floats(file, "tokenizer.ggml.scores", values);
            break;
        }
        case 4: {
            std::string map = le(static_cast<uint32_t>(below(random, 80)));
            for (uint64_t i = 0; i < below(random, 120); i++) {
                map += static_cast<char>(below(random, 256));
            }
            std::erase_if(file.pairs, [](const GgufBytes::Pair & pair) {
                return pair.key == "tokenizer.ggml.precompiled_charsmap";
            });
            file.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, map.size(), map);
            break;
        }
        default: { // a value of another type
            GgufBytes::Pair & pair = file.pairs[below(random, file.pairs.size())];
            pair.type              = GGUF_TYPE_UINT32;
            pair.value             = le(static_cast<uint32_t>(random()));
        }
    }
}

void run(const std::string & input) {
    const Vocab vocab = Vocab::load(scratch_file("vocab.gguf", input));
    for (const char * text : {"a b  ab\n\n \t the 12 caf\xc3\xa9", " ", "\xff<s></s><dna>ACGT</dna>\\n"}) {
        answered([&] { vocab.decode(vocab.encode(text, true, true), true); });
    }
    for (int32_t id = 0; id < vocab.size(); id++) {
        vocab.piece(id);
    }
}

void mutate(std::string & input, Random & random) {
    auto       file   = parsed_gguf(input);
    const bool listed = file && std::any_of(file->pairs.begin(), file->pairs.end(), [](const GgufBytes::Pair & pair) {
                            return pair.key == tokens_key && pair.type == GGUF_TYPE_ARRAY &&
                                   pair.value.starts_with(le<uint32_t>(GGUF_TYPE_STRING));
                        });
    if (!listed || below(random, 8) == 0) {
        mutate_bytes(input, random);
        return;
    }
    switch (below(random, 3)) {
        case 0: mutate_tokens(*file, random); break;
        case 1: mutate_merges(*file, random); break;
        default: mutate_keys(*file, random);
    }
    input = file->build();
}

} // namespace

Target vocab_target() { return {"vocab", seeds, run, mutate}; }

} // namespace buoy::fuzz
