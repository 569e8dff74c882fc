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

TEST_CASE("infill: what can't be filled is refused") {
    CHECK(error_of("no gap").find("has no gap") != std::string::npos);
    CHECK(error_of("[[x]] [[ 2 ]]").find("has no gap") != std::string::npos);
    CHECK(error_of("a [[0]]").find("'[[0]]'") != std::string::npos);
    CHECK(error_of("[[99999999999999999999999]]").find("has no size") != std::string::npos);
    CHECK(error_of("[[1048577]]").find("has no size") != std::string::npos);
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
