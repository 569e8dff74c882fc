#include "buoy/error.h"
#include "buoy/infill.h"
#include "buoy/text-stream.h"
#include "buoy/utf8.h"
#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace buoy;
using namespace buoy::test;

namespace {

using Ids = std::vector<int32_t>;

// Ids 0 to 255 are the bytes, in GPT-2's order; then "he", " t", <|im_start|>, <|im_end|>, <|mask|>.
Vocab byte_vocab() {
    static const Vocab vocab = [] {
        const std::string path = temp_dir() + "/vocab.gguf";
        small_vocab().write(path);
        return Vocab::load(path);
    }();
    return vocab;
}

Ids filled_with(const Infill & infill, int32_t mask, int32_t id) {
    Ids ids = infill.tokens();
    std::replace(ids.begin(), ids.end(), mask, id);
    return ids;
}

std::string error_of(const std::string & text) {
    try {
        const Infill infill(byte_vocab(), 9, text);
    } catch (const Error & error) {
        return error.what();
    }
    return "";
}

Ids operator+(Ids a, const Ids & b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace

TEST_CASE("infill: gaps become masks, the rest is as it was") {
    const Vocab   vocab = byte_vocab();
    const int32_t mask  = vocab.mask() >= 0 ? vocab.mask() : 260;
    const int32_t x     = vocab.encode("x", false, false)[0];

    const Infill infill(vocab, mask, "a[[3]]b[[1]]");
    Ids          expected = vocab.encode("a", false, false);
    expected.insert(expected.end(), 3, mask);
    expected.push_back(vocab.encode("b", false, false)[0]);
    expected.push_back(mask);
    CHECK(infill.tokens() == expected);
    CHECK(infill.filled(vocab, filled_with(infill, mask, x)) == "axxxbx");
    CHECK(infill.filled(vocab, infill.tokens()) == "ab"); // a run that was stopped at once

    // given bytes stay, also those that no tokenizer keeps
    const std::string odd = "\xff[[x]] [[[2]]] e\u0301 <|im_end|>[[]]\n";
    const Infill      bytes(vocab, mask, odd);
    CHECK(bytes.filled(vocab, filled_with(bytes, mask, x)) == "\xff[[x]] [xx] e\u0301 <|im_end|>[[]]\n");
}

TEST_CASE("infill: a gap has the space before it, as a word's token has") {
    const Vocab   vocab = byte_vocab();
    const int32_t mask  = 260;
    const int32_t t     = vocab.encode(" t", false, false)[0]; // one token
    const int32_t x     = vocab.encode("x", false, false)[0];
    REQUIRE(vocab.encode(" t", false, false).size() == 1);

    const Infill infill(vocab, mask, "a [[1]] b [[2]].");
    CHECK(infill.tokens() == vocab.encode("a", false, false) + Ids{mask} + vocab.encode(" b", false, false) +
                                 Ids{mask, mask} + vocab.encode(".", false, false));
    CHECK(infill.filled(vocab, filled_with(infill, mask, t)) == "a t b t t.");
    CHECK(infill.filled(vocab, filled_with(infill, mask, x)) == "a x b xx."); // the space was given and stays
    CHECK(infill.fills(vocab, filled_with(infill, mask, t)) == std::vector<std::string>{" t", " t t"});

    // at either end, side by side, and behind more spaces than a token takes
    const auto fill = [&](const std::string & text, int32_t id) {
        const Infill one(vocab, mask, text);
        return one.filled(vocab, filled_with(one, mask, id));
    };
    CHECK(fill("[[1]] b", x) == "x b");
    CHECK(fill("a [[1]]", t) == "a t");
    CHECK(fill("a [[1]][[2]]b", t) == "a t t tb");
    CHECK(fill("a [[1]] [[1]] b", t) == "a t t b");
    CHECK(fill("a  [[1]]", t) == "a  t");
    CHECK(fill("a\n[[1]]", x) == "a\nx");
    CHECK(Infill(vocab, mask, "a [[1]] [[1]] b").tokens() ==
          vocab.encode("a", false, false) + Ids{mask, mask} + vocab.encode(" b", false, false));

    CHECK(Infill(vocab, mask, "a [[1]]\n").ends_with_gap());
    CHECK_FALSE(Infill(vocab, mask, "a [[1]].").ends_with_gap());
    CHECK_FALSE(Infill(vocab, mask, "[[1]] a [[1]]").ends_with_gap());
    // special tokens only where asked
    const int32_t start = vocab.encode("<|im_start|>", false, true)[0];
    CHECK(Infill(vocab, mask, "<|im_start|>[[1]]", true).tokens() == Ids{start, mask});
    CHECK(Infill(vocab, mask, "<|im_start|>[[1]]").tokens().size() == 13);
}

TEST_CASE("infill: SentencePiece's space before a text is not written behind a gap") {
    VocabGguf file = sentencepiece_vocab();
    add_byte_pieces(file);
    const std::string space = "\xE2\x96\x81";
    const auto        s     = static_cast<int32_t>(file.add(space));
    const auto        a     = static_cast<int32_t>(file.add("a"));
    const auto        sa    = static_cast<int32_t>(file.add(space + "a"));
    const auto        dot   = static_cast<int32_t>(file.add("."));
    const auto        mask  = static_cast<int32_t>(file.add("<mask>", 3));
    const std::string path  = temp_dir() + "/vocab.gguf";
    file.write(path);
    const Vocab vocab = Vocab::load(path);
    const Ids   bos   = {1};

    const Infill infill(vocab, mask, "a [[1]] a[[1]].");
    CHECK(infill.tokens() == bos + Ids{sa, mask, sa, mask, dot});
    CHECK(infill.filled(vocab, filled_with(infill, mask, sa)) == "a a a a.");
    CHECK(infill.filled(vocab, filled_with(infill, mask, a)) == "a a aa.");
    const Infill first(vocab, mask, "[[1]] a  [[1]]");
    CHECK(first.tokens() == bos + Ids{mask, sa, s, mask});
    CHECK(first.filled(vocab, filled_with(first, mask, sa)) == "a a  a");
}

TEST_CASE("infill: what can't be filled is refused") {
    CHECK(error_of("no gap").find("has no gap") != std::string::npos);
    CHECK(error_of("[[x]] [[ 2 ]]").find("has no gap") != std::string::npos);
    CHECK(error_of("a [[0]]").find("'[[0]]'") != std::string::npos);
    CHECK(error_of("[[99999999999999999999999]]").find("the size must be") != std::string::npos);
    CHECK(error_of("[[1048577]]").find("the size must be") != std::string::npos);
    CHECK(error_of("[[1]]") == "");
}

TEST_CASE("text stream: whole characters only, together what decode gives") {
    const Vocab vocab = byte_vocab();
    const Ids   ids   = vocab.encode("né €\U0001F600!", false, false);
    TextStream  stream(vocab);
    std::string all;
    for (const int32_t id : ids) {
        const std::string part = stream.push(id);
        CHECK(utf8_repair(part) == part);
        CHECK(part.find("\uFFFD") == std::string::npos);
        all += part;
    }
    CHECK(all + stream.finish() == "né €\U0001F600!");

    std::mt19937 random(7);
    for (int round = 0; round < 200; round++) {
        Ids noise(1 + random() % 12);
        for (int32_t & id : noise) {
            id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab.size()));
        }
        TextStream  noisy(vocab);
        std::string text;
        for (const int32_t id : noise) {
            text += noisy.push(id);
        }
        CHECK(text + noisy.finish() == vocab.decode(noise));
    }
}

TEST_CASE("utf8: what may still be completed is held back") {
    CHECK(utf8_whole_length("") == 0);
    CHECK(utf8_whole_length("abc") == 3);
    CHECK(utf8_whole_length("a\xe2\x82") == 1);
    CHECK(utf8_whole_length("a\xe2\x82\xac") == 4);
    CHECK(utf8_whole_length("a\xf0\x9f\x98") == 1);
    CHECK(utf8_whole_length("a\xff") == 2);
    CHECK(utf8_whole_length("a\xe0\x80") == 3); // no character begins like that
    CHECK(utf8_whole_length("\x80\x80\x80") == 3);
    CHECK(utf8_width("a") == 1);
    CHECK(utf8_width("日") == 2);
    CHECK(utf8_width("\u0301") == 0);
}
