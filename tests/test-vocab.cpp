#include "buoy/error.h"
#include "buoy/vocab.h"
#include "support/oracle-vocab.h"
#include "support/paths.h"
#include "support/text.h"
#include "support/vocab-gguf.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <functional>

using namespace buoy;
using test::contains;
using test::VocabGguf;

namespace {

using Ids = std::vector<int32_t>;

Vocab load(const VocabGguf & file) {
    const std::string path = test::temp_dir() + "/vocab.gguf";
    file.write(path);
    return Vocab::load(path);
}

// The message of the Error that loading ends with.
std::string load_error(const VocabGguf & file) {
    try {
        load(file);
    } catch (const Error & error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("vocab: tokenizer cases of the oracles, ids and text") {
    for (const auto & [name, path, cases] : test::oracle_vocabs()) {
        CAPTURE(name);
        const Vocab vocab = Vocab::load(path);
        CHECK(cases["encode"].size() >= 40);
        for (const auto & entry : cases["encode"]) {
            const std::string text = entry["text"];
            const Ids         ids  = entry["ids"];
            CAPTURE(text);
            CHECK(vocab.encode(text, false, true) == ids);
            CHECK(vocab.encode(text, true, true) == entry["ids_with_special"].get<Ids>());
            CHECK(vocab.decode(ids, true) == entry["decoded"].get<std::string>());
            CHECK(vocab.decode(ids, false) == entry["decoded_skip_special"].get<std::string>());
        }
    }
}

TEST_CASE("vocab: loads the tokenizer of an architecture that nobody knows") {
    const Vocab vocab = load(test::small_vocab());
    CHECK(vocab.size() == 261);
    CHECK(vocab.bos() == 258);
    CHECK(vocab.eos() == 259);
    CHECK(vocab.mask() == 260);
    CHECK(vocab.is_end(259));
    CHECK_FALSE(vocab.is_end(260));
    CHECK_FALSE(vocab.is_end(-1));
    CHECK_FALSE(vocab.is_end(261));
    CHECK_FALSE(vocab.has_chat_template());
    CHECK(vocab.encode("the he", false, false) == Ids{'t', 256, 0x20, 256});
    CHECK(vocab.encode("a the", false, false) == Ids{'a', 257, 256});
}

TEST_CASE("vocab: special ids that the file does not give are none") {
    VocabGguf file = test::small_vocab();
    file.ids.clear();
    file.flags["add_bos_token"] = true;
    const Vocab vocab           = load(file);
    CHECK(vocab.bos() == -1);
    CHECK(vocab.eos() == -1);
    CHECK(vocab.mask() == -1);
    CHECK_FALSE(vocab.is_end(11));
    CHECK(vocab.is_end(259)); // by its text, <|im_end|>
    CHECK(vocab.encode("a", true, false) == Ids{'a'});

    file.ids["eos"] = 0xFFFFFFFF; // how some writers spell "none"
    CHECK(load(file).eos() == -1);
}

TEST_CASE("vocab: BOS and EOS are added as the file says") {
    VocabGguf file    = test::small_vocab();
    file.flags        = {{"add_bos_token", true}, {"add_eos_token", true}};
    const Vocab vocab = load(file);
    CHECK(vocab.encode("a", true, false) == Ids{258, 'a', 259});
    CHECK(vocab.encode("", true, false) == Ids{258, 259});
    CHECK(vocab.encode("a", false, false) == Ids{'a'});
}

TEST_CASE("vocab: special tokens are found leftmost longest, and only where asked for") {
    VocabGguf file = test::small_vocab();
    file.add("<|mask|><|mask|>", 3); // 261
    file.add("<tool>", 4);           // 262, not special: always a token
    file.add("|mask", 4);            // 263
    const Vocab vocab = load(file);
    CHECK(vocab.encode("a<|mask|>b", false, true) == Ids{'a', 260, 'b'});
    CHECK(vocab.encode("<|mask|><|mask|><|mask|>", false, true) == Ids{261, 260});
    CHECK(vocab.encode("<tool>", false, false) == Ids{262});
    CHECK(vocab.encode("<|mask|>", false, false) == Ids{'<', 263, '|', '>'});
    CHECK(vocab.decode(vocab.encode("<|im_end|>", false, false)) == "<|im_end|>");
    CHECK(vocab.decode({'a', 260, 262, 'b'}, false) == "a<tool>b");
    CHECK(vocab.decode({'a', 260, 262, 'b'}, true) == "a<|mask|><tool>b");
}

TEST_CASE("vocab: NFC where the file or its pre-tokenizer says so, never across a special token") {
    const std::string combining = "e\xCC\x81";  // e, U+0301
    const Ids         composed  = {0xC3, 0xA9}; // U+00E9
    const Ids         apart     = {'e', 0xCC, 0x81};

    VocabGguf file = test::small_vocab();
    CHECK(load(file).encode(combining, false, false) == composed);
    file.strings["tokenizer.ggml.normalizer"] = "none";
    CHECK(load(file).encode(combining, false, false) == apart);
    file.pre = "llama-bpe";
    CHECK(load(file).encode(combining, false, false) == apart);
    file.strings["tokenizer.ggml.normalizer"] = "nfc";
    const Vocab vocab                         = load(file);
    CHECK(vocab.encode(combining, false, false) == composed);
    CHECK(vocab.encode("<|mask|>\xCC\xB8", false, true) == Ids{260, 0xCC, 0xB8}); // ">" + U+0338 alone composes
    CHECK(vocab.encode(">\xCC\xB8", false, true) == Ids{0xE2, 0x89, 0xAF});

    file.strings["tokenizer.ggml.normalizer"] = "nfkc";
    CHECK(contains(load_error(file), "tokenizer.ggml.normalizer"));
}

TEST_CASE("vocab: ill-formed text") {
    const Vocab       vocab   = load(test::small_vocab());
    const std::string unknown = "\xEF\xBF\xBD";
    for (const std::string bad : {"\xFF", "\xC3", "\xC0", "\x80", "\xED", "\xF0\x9F\x98", "\xF4", "\xE2\x82"}) {
        CHECK(vocab.decode(vocab.encode("a" + bad + "b", false, true)) == "a" + unknown + "b");
        CHECK(vocab.decode(vocab.encode(bad, false, true)) == unknown);
    }
    CHECK(vocab.decode(vocab.encode("\xED\xA0\x80", false, true)) == unknown + unknown + unknown); // a lone surrogate
    CHECK(vocab.decode(vocab.encode("\xF7\xBF\xBF\xBF", false, true)) == unknown + unknown + unknown + unknown);
    const std::string zero("a\0b", 3);
    CHECK(vocab.encode(zero, false, true) == Ids{'a', 0, 'b'});
    CHECK(vocab.decode({'a', 0, 'b'}) == zero);
}

TEST_CASE("vocab: decoding gives valid UTF-8, pieces give the bytes") {
    const Vocab vocab = load(test::small_vocab());
    CHECK(vocab.decode({0xF0, 0x9F, 0x98, 0x80}) == "\xF0\x9F\x98\x80");
    CHECK(vocab.decode({0xF0, 0x9F, 0x98}) == "\xEF\xBF\xBD");
    CHECK(vocab.decode({0x80, 'a'}) == "\xEF\xBF\xBD"
                                       "a");
    CHECK(vocab.piece(0xF0) == "\xF0");
    CHECK(vocab.piece(260) == "<|mask|>");
    CHECK(vocab.piece(260, false).empty());
    // The LM head may have more rows than the tokenizer has tokens; they stand for no text, as in the authors' code.
    CHECK(vocab.piece(261).empty());
    CHECK(vocab.decode({-1, 'a', 261, 1 << 30}, true) == "a");
}

TEST_CASE("vocab: a million bytes, of one kind or of special tokens") {
    const auto check = [](const std::string & pre, size_t length, const std::vector<std::string> & units) {
        VocabGguf file                            = test::small_vocab();
        file.pre                                  = pre;
        file.strings["tokenizer.ggml.normalizer"] = "none";
        const Vocab vocab                         = load(file);
        for (const std::string & unit : units) {
            CAPTURE(pre);
            CAPTURE(unit);
            std::string text;
            while (text.size() < length) {
                text += unit;
            }
            const bool same = vocab.decode(vocab.encode(text, false, true), true) == text; // too long to print
            CHECK(same);
        }
    };
    check("qwen2", 1000000, {"a"});
    check("qwen2", 200000, {"\n", "he", "<", "<|mask|>"});
    check("llama-bpe", 200000, {"1", "\xE6\x97\xA5"});
    check("llada-moe", 1000000, {"a"});
    check("llada-moe", 200000, {" "});
    check("deepseek-v3", 200000, {"a", " ", "\xE6\x97\xA5"}); // words split by std::regex
    check("default", 200000, {"!", "1"});
    check("gpt-4o", 200000, {"a"});
}

TEST_CASE("vocab: long ordinary text does not depend on how it is fed to a pre-tokenizer made of regular expressions") {
    VocabGguf file             = test::small_vocab();
    file.pre                   = "deepseek-v3";
    const Vocab       vocab    = load(file);
    const std::string sentence = " the hen, 12345 of them;  then the\n\nother he's \xC3\xA9t\xC3\xA9";
    const Ids         once     = vocab.encode(sentence, false, false);
    Ids               expected;
    std::string       text;
    for (int i = 0; i < 400; i++) {
        text += sentence;
        expected.insert(expected.end(), once.begin(), once.end());
    }
    CHECK(vocab.encode(text, false, false) == expected);
}

TEST_CASE("vocab: the family's two spellings of one pre-tokenizer split alike") {
    VocabGguf file                            = test::small_vocab();
    file.strings["tokenizer.ggml.normalizer"] = "none";
    file.pre                                  = "llada-moe";
    for (const char * word :
         {"\xC4\x8A\xC4\x8A", "\xC4\xA0\xC4\xA0", "\xC4\xA0\xC4\x8A", "\xC4\x8A\xC4\xA0"}) { // \n\n, two spaces, …
        file.add(word);
        file.merges.push_back(std::string(word, 2) + " " + std::string(word + 2));
    }
    const Vocab vocab = load(file);
    // One word up to the last newline of the white space; then the spaces but the last; then " a".
    CHECK(vocab.encode("a \n\n  a", false, false) == Ids{'a', 0x20, 261, 0x20, 0x20, 'a'});
    CHECK(vocab.encode("a\n\n\na", false, false) == Ids{'a', 261, '\n', 'a'});
    CHECK(vocab.encode("12", false, false) == Ids{'1', '2'});
}

TEST_CASE("vocab: broken vocabularies are refused with the key's name") {
    const std::vector<std::pair<std::string, std::function<void(VocabGguf &)>>> cases{
        {"tokenizer.ggml.tokens is empty", [](VocabGguf & f) { f.tokens.clear(), f.types.clear(), f.merges.clear(); }},
        {"tokenizer.ggml.bos_token_id = 261", [](VocabGguf & f) { f.ids["bos"] = 261; }},
        {"tokenizer.ggml.eos_token_id = 4000000000", [](VocabGguf & f) { f.ids["eos"] = 4000000000; }},
        {"tokenizer.ggml.mask_token_id = 300", [](VocabGguf & f) { f.ids["mask"] = 300; }},
        {"tokenizer.ggml.tokens[261] is 1048576 bytes", [](VocabGguf & f) { f.add(std::string(1 << 20, 'a')); }},
        {"tokenizer.ggml.tokens[261] = 'he' occurs twice", [](VocabGguf & f) { f.add("he"); }},
        {"tokenizer.ggml.tokens[262] = '[EMPTY_261]'", [](VocabGguf & f) { f.add(""), f.add("[EMPTY_261]"); }},
        {"tokenizer.ggml.token_type has 260 entries", [](VocabGguf & f) { f.types.pop_back(); }},
        {"is typed as a byte", [](VocabGguf & f) { f.add("<0", 6); }},
        {"tokenizer.ggml.merges[2] = 'he'", [](VocabGguf & f) { f.merges.push_back("he"); }},
        {"tokenizer.ggml.merges[2] = ''", [](VocabGguf & f) { f.merges.push_back(""); }},
        {"tokenizer.ggml.merges[2] = 'h '", [](VocabGguf & f) { f.merges.push_back("h "); }},
        {"needs the token 'zz'", [](VocabGguf & f) { f.merges.push_back("z z"); }},
        {"needs the token 'qq'", [](VocabGguf & f) { f.merges.push_back("qq z"); }},
        {"tokenizer.ggml.model = none", [](VocabGguf & f) { f.model = "none"; }},
        {"unknown tokenizer: 'abacus'", [](VocabGguf & f) { f.model = "abacus"; }},
        {"unknown pre-tokenizer type: 'abacus'", [](VocabGguf & f) { f.pre = "abacus"; }},
        {"byte alphabet",
         [](VocabGguf & f) {
             for (int i = 0; i < 2; i++) {
                 f.add(std::string(16000, ' ') + std::to_string(i));
             }
         }},
    };
    for (const auto & [expected, spoil] : cases) {
        CAPTURE(expected);
        VocabGguf file = test::small_vocab();
        spoil(file);
        const std::string message = load_error(file);
        CAPTURE(message);
        CHECK(contains(message, expected));
        CHECK(contains(message, "vocab.gguf: "));
    }
}

TEST_CASE("vocab: SentencePiece") {
    VocabGguf file = test::sentencepiece_vocab();
    test::add_byte_pieces(file);
    file.add("\xE2\x96\x81"); // 259: the space
    file.add("a");            // 260
    const Vocab vocab = load(file);
    CHECK(vocab.bos() == 1);
    CHECK(vocab.eos() == 2);
    CHECK(vocab.encode("a b", true, false) == Ids{1, 259, 260, 259, 3 + 'b'});
    CHECK(vocab.decode({1, 259, 260, 259, 3 + 'b'}) == "a b");
    CHECK(vocab.decode({260, 3 + 0xE6, 3 + 0x97}) == "a\xEF\xBF\xBD");
    CHECK(vocab.encode(std::string(1000000, 'a'), false, false).size() == 1000001);
}

TEST_CASE("vocab: SentencePiece without byte tokens has <unk> for what it does not list") {
    VocabGguf file = test::sentencepiece_vocab();
    file.add("\xE2\x96\x81"); // 3: the space
    file.add("a");            // 4
    file.add("b");            // 5
    file.add("ab");           // 6
    file.add("z");            // 7, no part of another piece
    const Vocab vocab = load(file);
    CHECK(vocab.encode("ab az", false, false) == Ids{3, 6, 3, 4, 7});
    CHECK(vocab.encode("az\xC3\xA9z", false, false) == Ids{3, 4, 7, 0, 7});
    CHECK(vocab.encode("a\xE4\xBD\xA0\xE5\xA5\xBD! ab", false, false) == Ids{3, 4, 0, 3, 6}); // a run is one
    CHECK(vocab.encode("?", false, false) == Ids{3, 0});
    file.types[0]       = 3; // as some files have it
    file.ids["unknown"] = 0;
    CHECK(load(file).encode("?", false, false) == Ids{3, 0});
}

TEST_CASE("vocab: files that are none") {
    CHECK_THROWS_AS(Vocab::load("/no/such/file.gguf"), Error);
    const std::string path = test::temp_dir() + "/text.gguf";
    std::ofstream(path) << "just text";
    CHECK_THROWS_AS(Vocab::load(path), Error);
}
