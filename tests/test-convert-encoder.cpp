#include "hf-encoder.h"

#include "buoy/error.h"
#include "io/gguf-writer.h"
#include "io/json-file.h"
#include "support/converted.h"
#include "support/paths.h"
#include "tokenizer-check.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

std::vector<std::string> pieces(const std::string & pattern, const std::string & text) {
    const CodePoints         codes = decode_utf8(text);
    std::vector<std::string> out;
    size_t                   begin = 0;
    for (const size_t end : SplitPattern(pattern).split(codes)) {
        out.emplace_back();
        for (; begin < end; ++begin) {
            out.back() += encode_utf8(codes[begin]);
        }
    }
    return out;
}

using Words = std::vector<std::string>;

} // namespace

TEST_CASE("splitting patterns") {
    CHECK(pieces(R"(\p{N}{1,3})", "ab12345c") == Words{"ab", "123", "45", "c"});
    CHECK(pieces(R"(\s+(?!\S)|\s+)", "a   b") == Words{"a", "  ", " ", "b"});
    CHECK(pieces(R"((?i:'s|'ll)|\p{L}+)", "IT'S we'll") == Words{"IT", "'S", " ", "we", "'ll"});
    CHECK(pieces(R"([^\r\n\p{L}\p{N}]?\p{L}+)", " été-x") == Words{" été", "-x"});
    CHECK(pieces(R"([^\r\n\p{L}\p{N}]?+\p{L}+)", " ab") == Words{" ab"});
    CHECK(pieces(R"([a-c\-]+)", "xab-cy") == Words{"x", "ab-c", "y"});
    CHECK(pieces(R"(a|b(?=c))", "abbc") == Words{"a", "b", "b", "c"});
    for (const char * bad : {"(", "[a", "a{", "a{2", "\\p{L", "a)", "*", "\\"}) {
        INFO(bad);
        if (std::string(bad) != "*") { // a star alone is a star here
            CHECK_THROWS_AS(SplitPattern pattern(bad), Error);
        }
    }
}

TEST_CASE("tokenizer.json's rules, by our own small implementation, against Hugging Face's results") {
    size_t n_cases = 0;
    for (const auto & entry : std::filesystem::directory_iterator(oracles_dir())) {
        const std::string dir = entry.path().string();
        if (!std::filesystem::exists(dir + "/tokenizer_cases.json")) {
            continue;
        }
        INFO(dir);
        const HfJson         tokenizer = HfJson::load(dir + "/tokenizer.json");
        const HfEncoder      encoder(tokenizer);
        const nlohmann::json cases = load_json(dir + "/tokenizer_cases.json");
        for (const nlohmann::json & item : cases["encode"]) {
            const std::string text    = item["text"].get<std::string>();
            bool              special = false; // those are not the encoder's business
            for (const nlohmann::json & added : tokenizer.json()["added_tokens"]) {
                special = special || text.find(added["content"].get<std::string>()) != std::string::npos;
            }
            if (!special) {
                INFO(text);
                CHECK(encoder.encode(text) == item["ids"].get<std::vector<int32_t>>());
                ++n_cases;
            }
        }
    }
    CHECK(n_cases > 100);
}

TEST_CASE("a tokenizer that would come out differently is refused") {
    const HfJson tokenizer = HfJson::load(oracle_dir("qwen2") + "/tokenizer.json");
    GgufWriter   header;
    header.copy_keys(converted_oracle("qwen2"));
    check_tokenizer(tokenizer, header);
    header.set("tokenizer.ggml.pre", "gpt-2"); // digits in groups
    CHECK_THROWS_WITH_AS(check_tokenizer(tokenizer, header), doctest::Contains("nothing was written"), Error);
}
