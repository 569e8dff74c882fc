// Vocabularies that pass for some and trip an assertion inside libllama: each is an Error, or works.

#include "base/run-apart.h"
#include "buoy/error.h"
#include "buoy/vocab.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/vocab-kinds.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>

using namespace buoy;
using namespace buoy::test;

namespace {

const std::string tokens_key = "tokenizer.ggml.tokens";
const std::string types_key  = "tokenizer.ggml.token_type";

// Loads the file and uses all of it, in another process: "works", "Error: …", or how it died.
std::string outcome(const GgufBytes & file) {
    static const Vocab ready =
        Vocab::load(write_file(temp_dir(), "good.gguf", vocab_of("gpt2").build())); // initialises libllama once
    const std::string path   = write_file(temp_dir(), "vocab.gguf", file.build());
    const ApartResult result = run_apart(
        [&] {
            std::string said = "works";
            try {
                const Vocab vocab = Vocab::load(path);
                for (const char * text :
                     {"a b  ab\n\n\n \t\r\n the 12 caf\xc3\xa9 \xe4\xbd\xa0\xf0\x9f\x98\x80\xEE\x80\x80",
                      "   \xff\xfe<s>a</s><dna>ACGTAC</dna>"}) {
                    try {
                        const std::vector<int32_t> ids = vocab.encode(text, true, true);
                        vocab.decode(ids, true);
                    } catch (const Error & error) {
                        said = std::string("Error: ") + error.what();
                    }
                }
                for (int32_t id = 0; id < vocab.size(); id++) {
                    vocab.piece(id);
                    vocab.is_end(id);
                }
            } catch (const Error & error) {
                said = std::string("Error: ") + error.what();
            }
            return said;
        },
        {.cpu_seconds = 30, .memory = uint64_t{512} << 20, .result_max = 1u << 20});
    return result.end == ApartResult::End::done ? result.text
                                                : "died: " + std::to_string(static_cast<int>(result.end)) + result.text;
}

void check_survives(const GgufBytes & file) {
    const std::string said = outcome(file);
    CAPTURE(said);
    CHECK(said.rfind("died", 0) != 0);
    CHECK(said.find('\n') == std::string::npos);
}

// The last token gets this text and type.
GgufBytes with_token(const std::string & kind, const std::string & text, int32_t type = 1) {
    GgufBytes                file   = vocab_of(kind);
    std::vector<std::string> tokens = texts_of(file, tokens_key);
    tokens.back()                   = text;
    std::vector<int32_t> types(tokens.size(), 1);
    types.back() = type;
    put_texts(file, tokens_key, tokens);
    put_ints(file, types_key, types);
    return file;
}

} // namespace

TEST_CASE("vocab faults: a correct vocabulary of each kind works or says why not") {
    for (const std::string & kind : vocab_kinds()) {
        CAPTURE(kind);
        const std::string said = outcome(vocab_of(kind));
        CAPTURE(said);
        CHECK(said.rfind("died", 0) != 0);
    }
    CHECK(outcome(vocab_of("gpt2")) == "works");
    CHECK(outcome(vocab_of("llama")) == "works");
    CHECK(outcome(vocab_of("bert")) == "works");
    CHECK(outcome(vocab_of("gemma4/bytes")) == "works");
}

TEST_CASE("vocab faults: tokens") {
    const std::string nul("a\0b", 3);
    for (const std::string & kind : vocab_kinds()) {
        CAPTURE(kind);
        int32_t n_texts = 0;
        for (const std::string & text :
             {std::string(), nul, std::string("\0", 1), std::string("\xff\xfe"), std::string(" "), std::string("  "),
              std::string("\n"), std::string("[EMPTY_0]"), std::string("\\x"), std::string("\\xz"), std::string("\\"),
              std::string("'"), std::string("<0x"), std::string("<0xZZ>"), std::string("<|im_end|>"),
              std::string(16000, 'a')}) {
            const std::array<int32_t, 4> types = {1, 3, 4, 6};
            const int32_t                type  = types[static_cast<size_t>(n_texts++) % types.size()];
            CAPTURE(type);
            check_survives(with_token(kind, text, type));
        }
        GgufBytes twice       = vocab_of(kind); // the same text up to a NUL
        auto      list        = texts_of(twice, tokens_key);
        list[list.size() - 1] = nul + "c";
        list[list.size() - 2] = nul + "d";
        put_texts(twice, tokens_key, list);
        check_survives(twice);
    }
    CHECK(outcome(with_token("gpt2", std::string("h\0x", 3))).find("occurs twice") != std::string::npos);
}

TEST_CASE("vocab faults: arrays of another length or type, ids, scores, names") {
    using Spoil                     = std::function<void(GgufBytes &)>;
    const std::vector<Spoil> spoils = {
        [](GgufBytes & f) { put_texts(f, tokens_key, {"a"}), put_ints(f, types_key, {1}); },
        [](GgufBytes & f) {
            put_texts(f, tokens_key, {"a", "b"});
        },
        [](GgufBytes & f) { put_ints(f, types_key, {}); },
        [](GgufBytes & f) {
            put_floats(f, types_key, {1, 2});
        },
        [](GgufBytes & f) { put_text(f, types_key, "x"); },
        [](GgufBytes & f) { put_text(f, tokens_key, "x"); },
        [](GgufBytes & f) {
            put_ints(f, tokens_key, {1, 2, 3});
        },
        [](GgufBytes & f) { put_texts(f, "tokenizer.ggml.merges", {}); },
        [](GgufBytes & f) { put_ints(f, "tokenizer.ggml.merges", {1}); },
        [](GgufBytes & f) {
            put_texts(f, "tokenizer.ggml.merges", {"a", " ", "  ", "a  b", "\xff \xff"});
        },
        [](GgufBytes & f) { put_floats(f, "tokenizer.ggml.scores", {}); },
        [](GgufBytes & f) { put_floats(f, "tokenizer.ggml.scores", std::vector<float>(1000, NAN)); },
        [](GgufBytes & f) { put_floats(f, "tokenizer.ggml.scores", std::vector<float>(1000, INFINITY)); },
        [](GgufBytes & f) { put_floats(f, "tokenizer.ggml.scores", std::vector<float>(1000, 1e38f)); },
        [](GgufBytes & f) { put_ints(f, "tokenizer.ggml.scores", std::vector<int32_t>(1000, 1)); },
        [](GgufBytes & f) { put_texts(f, "tokenizer.ggml.scores", {"a"}); },
        [](GgufBytes & f) {
            put_ints(f, "tokenizer.ggml.suppress_tokens", {-1, 1 << 30});
        },
        [](GgufBytes & f) { f.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, 3, "abc"); },
        [](GgufBytes & f) {
            f.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, 9,
                    std::string("\4\0\0\0\xff\xff\xff\xff\1", 9));
        },
        [](GgufBytes & f) {
            f.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, 40,
                    std::string("\x20\0\0\0", 4) + std::string(36, '\xff'));
        },
        [](GgufBytes & f) {
            f.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, 2052,
                    std::string("\0\x08\0\0", 4) + std::string(2047, '\x7f') + "a");
        },
        [](GgufBytes & f) { f.array("tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_STRING, 0, ""); },
        [](GgufBytes & f) { put_text(f, "general.name", "phi-3"); },
        [](GgufBytes & f) { put_text(f, "general.name", "modern-bert"); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.pre", "jina-v2-de"); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.pre", "kimi-k2"); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.pre", "chatglm-bpe"); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.pre", ""); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.pre", std::string(100000, 'x')); },
        [](GgufBytes & f) { put_text(f, "tokenizer.ggml.add_bos_token", "x"); },
        [](GgufBytes & f) { f.u32("tokenizer.ggml.token_type_count", 0xffffffff); },
    };
    for (const std::string & kind : vocab_kinds()) {
        CAPTURE(kind);
        for (size_t i = 0; i < spoils.size(); i++) {
            CAPTURE(i);
            GgufBytes file = vocab_of(kind);
            spoils[i](file);
            check_survives(file);
        }
        for (const char * name :
             {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "fim_pre", "prefix"}) {
            CAPTURE(name);
            for (const uint32_t id : {0u, 0x7fffffffu}) {
                GgufBytes file = vocab_of(kind);
                put_id(file, name, id);
                check_survives(file);
            }
        }
    }
}

TEST_CASE("vocab faults: a tokenizer that never ends is stopped") {
    GgufBytes file = vocab_of("rwkv");
    put_texts(file, tokens_key, {"<s>", "\\n", "ab"}); // for a byte that begins a token and is none
    put_ints(file, types_key, {3, 1, 1});
    const std::string said = outcome(file);
    CAPTURE(said);
    CHECK(said.find("Error: ") == 0);
}
