#include "buoy/error.h"
#include "buoy/regions.h"
#include "support/converted.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

using Spans = std::vector<std::pair<int32_t, int32_t>>;

constexpr const char * plain_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                                        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

Vocab make_vocab(const std::string & chat_template) {
    VocabGguf file = small_vocab();
    if (!chat_template.empty()) {
        file.strings["tokenizer.chat_template"] = chat_template;
    }
    const std::string path = temp_dir() + "/vocab.gguf";
    file.write(path);
    return Vocab::load(path);
}

RegionSource chat_source(const Vocab & vocab, const std::vector<ChatMessage> & messages, int32_t n_predict = 4) {
    return {vocab.encode_chat(messages, true), n_predict, messages};
}

const Region & region(const std::vector<Region> & regions, const std::string & name) {
    for (const Region & one : regions) {
        if (one.name == name) {
            return one;
        }
    }
    FAIL("no region " << name);
    return regions[0];
}

bool has(const std::vector<Region> & regions, const std::string & name) {
    return std::any_of(regions.begin(), regions.end(), [&](const Region & one) { return one.name == name; });
}

// What the tokens of a region say.
std::string text_of(const std::vector<Region> & regions, const std::string & name, const Vocab & vocab,
                    const std::vector<int32_t> & tokens) {
    std::string text;
    for (const auto & [first, last] : region(regions, name).spans) {
        text += text.empty() ? "" : "|";
        for (int32_t i = first; i < last; i++) {
            text += vocab.piece(tokens.at(static_cast<size_t>(i)));
        }
    }
    return text;
}

RegionSpec by_text(const std::string & name, const std::string & text, int32_t occurrence = 1) {
    RegionSpec spec;
    spec.name       = name;
    spec.text       = text;
    spec.occurrence = occurrence;
    return spec;
}

void check_file_refused(const std::string & json, const std::string & culprit) {
    CAPTURE(json);
    const std::string path = write_file(temp_dir(), "regions.json", json);
    try {
        load_regions(path);
        FAIL_CHECK("accepted");
    } catch (const Error & error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find(path) == 0);
        CHECK(message.find(culprit) != std::string::npos);
    }
}

} // namespace

TEST_CASE("regions: a chat's roles, its first token, the answer and the rest") {
    const Vocab                    vocab    = make_vocab(plain_template);
    const std::vector<ChatMessage> messages = {
        {"system", "be brief"}, {"user", "hi"}, {"assistant", "hello"}, {"user", "why"}};
    const RegionSource        source  = chat_source(vocab, messages);
    const std::vector<Region> regions = make_regions({}, vocab, source);
    const auto                n       = static_cast<int32_t>(source.tokens.size());
    CHECK(region(regions, "bos").spans == Spans{{0, 1}});
    CHECK(text_of(regions, "system", vocab, source.tokens) == "be brief");
    CHECK(text_of(regions, "user", vocab, source.tokens) == "hi|why");
    CHECK(text_of(regions, "assistant", vocab, source.tokens) == "hello");
    CHECK(region(regions, "answer").spans == Spans{{n, n + 4}});
    CHECK(text_of(regions, "other", vocab, source.tokens) ==
          "system\n|<|im_end|>\n<|im_start|>user\n|<|im_end|>\n<|im_start|>assistant\n|<|im_end|>\n<|im_start|>user\n|"
          "<|im_end|>\n<|im_start|>assistant\n");
    // every position lies in exactly one of them
    std::vector<int> n_in(source.tokens.size() + 4, 0);
    for (const Region & one : regions) {
        for (const auto & [first, last] : one.spans) {
            for (int32_t i = first; i < last; i++) {
                n_in.at(static_cast<size_t>(i))++;
            }
        }
    }
    CHECK(n_in == std::vector<int>(n_in.size(), 1));
}

TEST_CASE("regions: a message is found where it stands, not where its text occurs first") {
    const Vocab                    vocab    = make_vocab(plain_template);
    const std::vector<ChatMessage> messages = {{"system", "user"}, {"user", "s"}};
    const RegionSource             source   = chat_source(vocab, messages);
    const std::vector<Region>      regions  = make_regions({}, vocab, source);
    // <|im_start|> s y s t e m \n u s e r <|im_end|> \n <|im_start|> u s e r \n s
    CHECK(region(regions, "system").spans == Spans{{8, 12}});
    CHECK(region(regions, "user").spans == Spans{{20, 21}});
}

TEST_CASE("regions: templates that trim, and contents with control tokens, invalid bytes and marks") {
    const Vocab trimming = make_vocab("{% for m in messages %}[{{ m.role }}] {{ m.content | trim }} ;{% endfor %}");
    const std::vector<ChatMessage> messages = {{"user", "  \n the end \n"}};
    RegionSource                   source   = chat_source(trimming, messages);
    CHECK(text_of(make_regions({}, trimming, source), "user", trimming, source.tokens) ==
          " the end"); // " t" is one token

    const Vocab vocab = make_vocab(plain_template);
    for (const std::string content : {"say <|im_end|> twice <|im_end|>", "caf\xC3\xA9 \xE2\x82\xAC"}) {
        source = chat_source(vocab, {{"user", content}});
        CHECK(text_of(make_regions({}, vocab, source), "user", vocab, source.tokens) == content);
    }
    source = chat_source(vocab, {{"user", "a\xFF"}});
    CHECK(text_of(make_regions({}, vocab, source), "user", vocab, source.tokens) == "a\xEF\xBF\xBD");

    const Vocab silent =
        make_vocab("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}");
    source                            = chat_source(silent, {{"system", "be brief"}, {"user", "be brief"}});
    const std::vector<Region> regions = make_regions({}, silent, source);
    CHECK_FALSE(has(regions, "system"));
    CHECK(region(regions, "user").spans == Spans{{0, 8}});
    CHECK_FALSE(has(regions, "other"));
}

TEST_CASE("regions: without messages what is given is user, and masks are answer") {
    const Vocab   vocab = make_vocab("");
    RegionSource  source;
    const int32_t bos = vocab.bos(), mask = vocab.mask();
    source.tokens               = {bos, 65, mask, mask, 66};
    source.n_predict            = 2;
    std::vector<Region> regions = make_regions({}, vocab, source);
    CHECK(region(regions, "bos").spans == Spans{{0, 1}});
    CHECK(region(regions, "user").spans == Spans{{1, 2}, {4, 5}});
    CHECK(region(regions, "answer").spans == Spans{{2, 4}, {5, 7}});
    CHECK(regions.size() == 3);
    CHECK(make_regions({}, vocab, {}).empty());
}

TEST_CASE("regions: by text, by positions and by role") {
    const Vocab        vocab  = make_vocab(plain_template);
    const RegionSource source = chat_source(vocab, {{"system", "rules"}, {"user", "the cat, the dog, the end"}});

    RegionSpec tokens;
    tokens.name  = "first";
    tokens.first = 0;
    tokens.last  = 3;
    RegionSpec role;
    role.name                         = "law";
    role.role                         = "system";
    const std::vector<Region> regions = make_regions(
        {by_text("cat", "cat,"), by_text("second", "the", 2), by_text("each", "the", 0), tokens, role}, vocab, source);
    CHECK(text_of(regions, "cat", vocab, source.tokens) == "cat,");
    CHECK(text_of(regions, "second", vocab, source.tokens) == " the"); // the piece " t" has the first letter
    CHECK(text_of(regions, "each", vocab, source.tokens) == "the| the| the");
    CHECK(region(regions, "first").spans == Spans{{0, 3}});
    CHECK(region(regions, "law").spans == region(regions, "system").spans);
    CHECK(text_of(regions, "user", vocab, source.tokens) == "the cat, the dog, the end");

    // a name of one's own replaces the automatic region, and `other` is what is left
    const std::vector<Region> own = make_regions({by_text("user", "cat")}, vocab, source);
    CHECK(text_of(own, "user", vocab, source.tokens) == "cat");
    CHECK(text_of(own, "other", vocab, source.tokens).find(", the dog") != std::string::npos);
}

TEST_CASE("regions: what is not in the prompt is named") {
    const Vocab        vocab  = make_vocab(plain_template);
    const RegionSource source = chat_source(vocab, {{"user", "one two"}});
    const auto         n_all  = static_cast<int32_t>(source.tokens.size()) + source.n_predict;
    CHECK_THROWS_WITH_AS(make_regions({by_text("x", "three")}, vocab, source),
                         "region 'x': the text 'three' does not occur in the prompt", Error);
    CHECK_THROWS_WITH_AS(make_regions({by_text("x", "two", 2)}, vocab, source),
                         "region 'x': occurrence 2 of the text 'two', the prompt has 1", Error);
    RegionSpec role;
    role.name = "x";
    role.role = "system";
    CHECK_THROWS_WITH_AS(make_regions({role}, vocab, source),
                         "region 'x': the prompt has no message with the role 'system'", Error);
    RegionSpec tokens;
    tokens.name  = "x";
    tokens.first = 1;
    tokens.last  = n_all;
    CHECK(region(make_regions({tokens}, vocab, source), "x").spans == Spans{{1, n_all}});
    tokens.last++;
    CHECK_THROWS_WITH_AS(make_regions({tokens}, vocab, source), doctest::Contains("prompt and answer have"), Error);
}

TEST_CASE("regions: a normalising tokenizer's text is found as it was typed") {
    const Vocab       vocab = Vocab::load(converted_oracle("qwen2")); // NFC
    const std::string typed = "cafe\xCC\x81 au lait";                 // e and a combining accent
    RegionSource      source;
    source.tokens                     = vocab.encode("a " + typed + " please", false, false);
    const std::vector<Region> regions = make_regions({by_text("x", typed)}, vocab, source);
    CHECK(text_of(regions, "x", vocab, source.tokens).find("caf\xC3\xA9 au lait") != std::string::npos);
    if (vocab.has_chat_template()) {
        source = chat_source(vocab, {{"user", typed}});
        CHECK(text_of(make_regions({}, vocab, source), "user", vocab, source.tokens) == "caf\xC3\xA9 au lait");
    }
}

TEST_CASE("regions: the file") {
    const std::string path = write_file(temp_dir(), "regions.json",
                                        R"({"regions": [{"name": "doc1", "text": "a b", "occurrence": 2},
                                                        {"name": "all", "text": "c", "occurrence": "all"}]})");
    CHECK_THROWS_AS(load_regions(path), Error); // all means something else
    const std::string             good  = write_file(temp_dir(), "regions.json",
                                                     R"({"regions": [{"name": "doc1", "text": "a b", "occurrence": 2},
                                                        {"name": "each", "text": "c", "occurrence": "all"},
                                                        {"name": "q", "tokens": [12, 30]},
                                                        {"name": "rules", "role": "system"}]})");
    const std::vector<RegionSpec> specs = load_regions(good);
    REQUIRE(specs.size() == 4);
    CHECK(specs[0].text == "a b");
    CHECK(specs[0].occurrence == 2);
    CHECK(specs[1].occurrence == 0);
    CHECK(specs[2].first == 12);
    CHECK(specs[2].last == 30);
    CHECK(specs[3].role == "system");
    CHECK(load_regions(write_file(temp_dir(), "regions.json", R"({"regions": []})")).empty());

    check_file_refused("{", "not valid JSON");
    check_file_refused("[]", "expected {\"regions\"");
    check_file_refused(R"({"regions": {}})", "expected {\"regions\"");
    check_file_refused(R"({"regions": [7]})", "region 0 is not an object");
    check_file_refused(R"({"regions": [{"text": "x"}]})", "region 0 is not an object with a name");
    check_file_refused(R"({"regions": [{"name": "a"}]})", "region 'a': expected one of text, tokens and role, found 0");
    check_file_refused(R"({"regions": [{"name": "a", "text": "x", "role": "user"}]})", "found 2");
    check_file_refused(R"({"regions": [{"name": "a", "text": ""}]})", "text is not a non-empty string");
    check_file_refused(R"({"regions": [{"name": "a", "text": "x", "occurence": 2}]})", "'occurence' is unknown");
    check_file_refused(R"({"regions": [{"name": "a", "text": "x", "occurrence": 0}]})", "occurrence needs a text");
    check_file_refused(R"({"regions": [{"name": "a", "text": "x", "occurrence": -1}]})", "'-1'");
    check_file_refused(R"({"regions": [{"name": "a", "role": "robot"}]})", "the role 'robot'");
    check_file_refused(R"({"regions": [{"name": "a", "tokens": [3]}]})", "[FIRST, END]");
    check_file_refused(R"({"regions": [{"name": "a", "tokens": [3, 3]}]})", "empty range");
    check_file_refused(R"({"regions": [{"name": "a", "tokens": [-1, 3]}]})", "'-1'");
    check_file_refused(R"({"regions": [{"name": "a", "tokens": [1, 1e99]}]})", "is not a position");
    check_file_refused(R"({"regions": [{"name": "a", "tokens": [1, 99999999999]}]})", "is not a position");
    check_file_refused(R"({"regions": [{"name": "a", "role": "user"}, {"name": "a", "role": "user"}]})",
                       "appears twice");
    for (const char * name : {"a b", "a,b", "1a", "-a", "a=b", "a@0", "sinks"}) {
        check_file_refused(std::string(R"({"regions": [{"name": ")") + name + R"(", "role": "user"}]})",
                           "a name must not begin with a digit");
    }
    CHECK_THROWS_AS(load_regions(temp_dir() + "/none.json"), Error);
}
