#include "tokenizer.h"

#include "buoy/error.h"
#include "convert.h"
#include "io/gguf-file.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;

struct Read {
    Tokenizer                tokenizer;
    std::string              error;
    std::vector<std::string> warnings;

    int32_t special(const std::string & name) const {
        const auto found = tokenizer.special_ids.find(name);
        return found == tokenizer.special_ids.end() ? -1 : found->second;
    }
    void failed(const std::string & part) const {
        INFO("error: ", error);
        CHECK(error.find(part) != std::string::npos);
        CHECK(error.find('\n') == std::string::npos);
    }
};

constexpr int64_t N_VOCAB = 270; // 258 normal tokens, 3 added ones, the rest unused
constexpr int32_t START = 258, END = 259, MASK = 260;

Read read_dir(const std::string & dir) {
    Read result;
    try {
        result.tokenizer = read_tokenizer(dir, HfJson::load(dir + "/config.json"), N_VOCAB,
                                          [&](LogLevel, const std::string & text) { result.warnings.push_back(text); });
    } catch (const Error & e) {
        result.error = e.what();
    }
    return result;
}

HfDir checkpoint() { return tiny_checkpoint("LlamaForCausalLM"); }

Read read(const HfDir & dir) { return read_dir(dir.write()); }

Json split(const std::string & regex) {
    return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// A tokenizer of the Llama-2 kind over a few letters.
HfDir llama2_checkpoint() {
    HfDir dir     = checkpoint();
    Json  vocab   = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"<0x0A>", 3}, {"▁", 4},
                     {"a", 5},     {"b", 6},   {"ab", 7},   {"▁a", 8},     {"▁ab", 9}};
    dir.tokenizer = {
        {"added_tokens",
         {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
          {{"id", 1}, {"content", "<s>"}, {"special", true}},
          {{"id", 2}, {"content", "</s>"}, {"special", true}},
          {{"id", 10}, {"content", "▁wide▁"}, {"special", false}}}},
        {"normalizer",
         {{"type", "Sequence"},
          {"normalizers",
           {{{"type", "Prepend"}, {"prepend", "▁"}},
            {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
        {"pre_tokenizer", nullptr},
        {"post_processor",
         {{"type", "TemplateProcessing"},
          {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}}}},
        {"model",
         {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocab}, {"merges", {"a b", "▁ a", "▁a b", "▁ ab"}}}},
    };
    dir.tokenizer_config = {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    return dir;
}

} // namespace

TEST_CASE("tokenizer: tokens, their types and the unused rows") {
    HfDir dir = checkpoint();
    dir.tokenizer["added_tokens"].push_back({{"id", 265}, {"content", "<tool>"}, {"special", false}});
    const Tokenizer tokenizer = read(dir).tokenizer;
    REQUIRE(tokenizer.tokens.size() == N_VOCAB);
    CHECK(tokenizer.pre.kind == TokenizerKind::byte_level);
    CHECK(tokenizer.pre.name == "qwen2");
    CHECK(tokenizer.pre.normalizer == "nfc");
    CHECK(tokenizer.tokens[256] == "he");
    CHECK(tokenizer.types[256] == TokenType::normal);
    CHECK(tokenizer.types[END] == TokenType::control);
    CHECK(tokenizer.types[265] == TokenType::user_defined);
    CHECK(tokenizer.tokens[264] == "[PAD264]");
    CHECK(tokenizer.types[264] == TokenType::unused);
    CHECK(tokenizer.merges == std::vector<std::string>{"h e", "Ġ t"});
    CHECK(tokenizer.scores.empty());
}

TEST_CASE("tokenizer: merges as strings or as pairs") {
    HfDir dir                        = checkpoint();
    dir.tokenizer["model"]["merges"] = Json::array({Json::array({"h", "e"}), Json::array({"Ġ", "t"})});
    CHECK(read(dir).tokenizer.merges == std::vector<std::string>{"h e", "Ġ t"});
    for (const Json & bad : {Json("he"), Json("h e r"), Json(7), Json::array({"h"}), Json::array({"h", 1})}) {
        dir.tokenizer["model"]["merges"] = Json::array({bad});
        read(dir).failed("merge 0 is not a pair");
    }
    dir.tokenizer["model"]["merges"] = Json::array({"h x"});
    read(dir).failed("merge 0 of 'h' and 'x': the vocabulary lacks");
    dir.tokenizer["model"]["merges"] = nullptr;
    read(dir).failed("no 'merges'");
    dir.tokenizer["model"]["merges"] = Json::array();
    CHECK(read(dir).error == "");
}

TEST_CASE("tokenizer: Llama-2 style") {
    const Read read_result = read(llama2_checkpoint());
    REQUIRE(read_result.error == "");
    const Tokenizer & tokenizer = read_result.tokenizer;
    CHECK(tokenizer.pre.kind == TokenizerKind::spm);
    CHECK(tokenizer.pre.prefix_space);
    CHECK(tokenizer.types[3] == TokenType::byte);
    CHECK(tokenizer.types[0] == TokenType::control);
    CHECK(tokenizer.tokens[10] == " wide ");
    CHECK(tokenizer.scores[7] == 0);  // ab is the first merge
    CHECK(tokenizer.scores[8] == -1); // ▁a
    CHECK(tokenizer.scores[9] == -2); // ▁ab, by the better of its two merges
    CHECK(tokenizer.scores[5] < -100);
    CHECK(read_result.special("bos") == 1);
    CHECK(read_result.special("unknown") == 0);
    CHECK(tokenizer.add_bos);
    CHECK(!tokenizer.add_eos);

    HfDir dir                      = llama2_checkpoint();
    dir.tokenizer["normalizer"]    = nullptr;
    dir.tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
    CHECK(!read(dir).tokenizer.pre.prefix_space);
    dir.tokenizer["pre_tokenizer"] = nullptr;
    read(dir).failed("normalizer of an unknown kind");
}

TEST_CASE("tokenizer: pre-tokenizers are known by their pattern") {
    const std::string qwen =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    std::string llama = qwen;
    llama.replace(llama.find(R"(\p{N}|)"), 6, R"(\p{N}{1,3}|)");
    const std::string bailing =
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
    const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    const Json gpt2  = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

    HfDir      dir  = checkpoint();
    const auto name = [&](const Json & pre, bool ignore_merges = false) {
        dir.tokenizer["pre_tokenizer"]          = pre;
        dir.tokenizer["model"]["ignore_merges"] = ignore_merges;
        return read(dir).tokenizer.pre.name;
    };
    const auto sequence = [](const Json & steps) { return Json{{"type", "Sequence"}, {"pretokenizers", steps}}; };
    CHECK(name(sequence({split(qwen), bytes})) == "qwen2");
    CHECK(name(sequence({split(llama), bytes}), true) == "llama-bpe");
    CHECK(name(sequence({split(llama), bytes}), false) == "smaug-bpe");
    CHECK(name(sequence({split(bailing), bytes})) == "llada-moe");
    CHECK(name(gpt2) == "gpt-2");
    CHECK(name(sequence({{{"type", "Digits"}, {"individual_digits", true}}, gpt2})) == "smollm");

    // the same pattern with its line ends as characters
    std::string raw = qwen;
    for (size_t at = raw.find(R"(\r\n)"); at != std::string::npos; at = raw.find(R"(\r\n)")) {
        raw.replace(at, 4, "\r\n");
    }
    CHECK(name(sequence({split(raw), bytes})) == "qwen2");
}

TEST_CASE("tokenizer: unknown kinds are named") {
    HfDir      dir    = checkpoint();
    const auto broken = [&](const char * key, const Json & value) {
        HfDir copy          = dir;
        copy.tokenizer[key] = value;
        return read(copy);
    };
    broken("model", {{"type", "Unigram"}, {"vocab", Json::array()}})
        .failed("model of an unknown kind: 'Unigram'; known are llama-bpe");
    broken("model", {{"type", "WordPiece"}}).failed("'WordPiece'");
    broken("model", nullptr).failed("no 'model'");
    broken("pre_tokenizer", split("[a-z]+")).failed("[a-z]+");
    broken("pre_tokenizer", nullptr).failed("pre_tokenizer of an unknown kind");
    broken("pre_tokenizer", "x").failed("pre_tokenizer of an unknown kind");
    broken("pre_tokenizer", {{"type", "Whitespace"}}).failed("Whitespace");
    broken("normalizer", {{"type", "Lowercase"}}).failed("normalizer of an unknown kind");
    dir.tokenizer["model"]["ignore_merges"] = true;
    read(dir).failed("qwen2 with ignore_merges");
}

TEST_CASE("tokenizer: a vocabulary that makes no sense") {
    const auto broken = [](const char * token, const Json & id) {
        HfDir dir                              = checkpoint();
        dir.tokenizer["model"]["vocab"][token] = id;
        return read(dir);
    };
    broken("new", 256).failed("id 256 belongs to");
    broken("new", 270).failed("token 'new' has id 270, the embedding has 270 rows");
    broken("new", -1).failed("not a 32-bit number");
    broken("new", "7").failed("not a 32-bit number");
    broken("new", 1e300).failed("not a 32-bit number");
    broken("[PAD269]", 268).failed("tokens 268 and 269 are both '[PAD269]'");
    broken(std::string(20000, 'x').c_str(), 268).failed("20000 bytes long");
    CHECK(broken("", 268).tokenizer.tokens[268] == "[EMPTY_268]");

    HfDir dir                                               = checkpoint();
    dir.tokenizer["model"]["vocab"][std::string("a\0b", 3)] = 268;
    read(dir).failed("NUL");
    dir                           = checkpoint();
    dir.tokenizer["added_tokens"] = {{{"id", 256}, {"content", "<x>"}}};
    read(dir).failed("id 256 belongs to 'he' and to '<x>'");
    dir.tokenizer["added_tokens"] = {{{"content", "<x>"}}};
    read(dir).failed("no id or content");
    dir.tokenizer["added_tokens"] = "x";
    read(dir).failed("expected a list");
    dir                             = checkpoint();
    dir.tokenizer["model"]["vocab"] = Json::object();
    read(dir).failed("no 'vocab'");

    const std::string written = checkpoint().write();
    write_file(written + "/tokenizer.json", "{\"model\": {\"vocab\": {\"\\ud800\": 1}}}");
    read_dir(written).failed("not valid JSON");
    std::remove((written + "/tokenizer.json").c_str());
    read_dir(written).failed("no tokenizer.json");
}

TEST_CASE("tokenizer: special ids, in the order of trust") {
    HfDir dir                  = checkpoint();
    dir.config["bos_token_id"] = 3;
    dir.config["eos_token_id"] = 4;
    dir.config["pad_token_id"] = -1;
    dir.config["sep_token_id"] = 99999;
    Read result                = read(dir);
    CHECK(result.special("eos") == END); // the tokenizer's own word counts before config.json
    CHECK(result.special("bos") == 3);
    CHECK(result.special("padding") == -1);
    CHECK(result.special("seperator") == -1);
    CHECK(result.warnings.size() == 2);
    CHECK(result.special("mask") == MASK); // by its text
    CHECK(result.special("eot") == 4);     // config.json knows another end

    dir.config["mask_token_id"] = 5;
    CHECK(read(dir).special("mask") == 5);
    dir.config["mask_token_id"] = N_VOCAB;
    read(dir).failed("mask_token_id 270 is outside the vocabulary of 270");
    dir.config.erase("mask_token_id");

    const std::string written = dir.write();
    write_file(written + "/generation_config.json", R"({"eos_token_id": [259, 4, 7, 8]})");
    result = read_dir(written);
    CHECK(result.special("eos") == END);
    CHECK(result.special("eot") == END); // <|im_end|> by its text
    CHECK(result.special("eom") == 4);

    dir.tokenizer_config = {{"bos_token", "<missing>"}};
    result               = read(dir);
    CHECK(result.special("bos") == 3);
    CHECK(result.warnings.size() == 3);
}

TEST_CASE("tokenizer: who adds BOS and EOS") {
    HfDir      dir      = checkpoint();
    const Json first    = {{"SpecialToken", {{"id", "<|im_start|>"}}}};
    const Json last     = {{"SpecialToken", {{"id", "<|im_end|>"}}}};
    const Json sequence = {{"Sequence", {{"id", "A"}}}};
    dir.tokenizer_config.erase("add_bos_token");
    CHECK(!read(dir).tokenizer.add_bos);

    dir.tokenizer["post_processor"] = {
        {"type", "Sequence"},
        {"processors",
         {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", {first, sequence, last}}}}}};
    CHECK(read(dir).tokenizer.add_bos);
    CHECK(read(dir).special("bos") == START); // nobody else named one
    CHECK(read(dir).tokenizer.add_eos);

    dir.tokenizer_config["add_bos_token"] = false;
    CHECK(!read(dir).tokenizer.add_bos);

    // libllama would abort if it were to add a token that is not there
    dir                  = checkpoint();
    dir.tokenizer_config = {{"add_bos_token", true}};
    CHECK(!read(dir).tokenizer.add_bos);
    CHECK(read(dir).warnings.size() == 1);
}

TEST_CASE("tokenizer: chat templates") {
    HfDir dir                             = checkpoint();
    dir.tokenizer_config["chat_template"] = "{{ one }}";
    const std::string written             = dir.write();
    write_file(written + "/chat_template.jinja", "{{ two }}");
    CHECK(read_dir(written).tokenizer.chat_template == "{{ one }}");
    write_file(written + "/tokenizer_config.json", "{}");
    CHECK(read_dir(written).tokenizer.chat_template == "{{ two }}");

    dir.tokenizer_config["chat_template"] = {{{"name", "default"}, {"template", "{{ d }}"}},
                                             {{"name", "tools"}, {"template", "{{ t }}"}}};
    const Tokenizer several               = read(dir).tokenizer;
    CHECK(several.chat_template == "{{ d }}");
    CHECK(several.chat_templates_named.at("tools") == "{{ t }}");
    dir.tokenizer_config["chat_template"] = {{{"name", "default"}}};
    read(dir).failed("no name or template");
}

TEST_CASE("tokenizer: vocab.json and merges.txt instead of tokenizer.json") {
    HfDir           dir                          = checkpoint();
    const Tokenizer whole                        = read(dir).tokenizer;
    dir.tokenizer_config["tokenizer_class"]      = "DreamTokenizer";
    dir.tokenizer_config["added_tokens_decoder"] = Json::object();
    for (const Json & added : dir.tokenizer["added_tokens"]) {
        dir.tokenizer_config["added_tokens_decoder"][added["id"].dump()] = added;
    }
    const std::string written = dir.write();
    std::remove((written + "/tokenizer.json").c_str());
    write_file(written + "/vocab.json", dir.tokenizer["model"]["vocab"].dump());
    write_file(written + "/merges.txt", "#version: 0.2\nh e\r\nĠ t\n");
    const Read result = read_dir(written);
    REQUIRE(result.error == "");
    CHECK(result.tokenizer.pre.name == "qwen2");
    CHECK(result.tokenizer.pre.normalizer == "nfc");
    CHECK(result.tokenizer.tokens == whole.tokens);
    CHECK(result.tokenizer.types == whole.types);
    CHECK(result.tokenizer.merges == whole.merges);

    const auto configured = [&](const char * key, const Json & value) {
        Json config = dir.tokenizer_config;
        config[key] = value;
        write_file(written + "/tokenizer_config.json", config.dump());
        return read_dir(written);
    };
    CHECK(configured("tokenizer_class", "GPT2Tokenizer").tokenizer.pre.name == "gpt-2");
    configured("tokenizer_class", "OddTokenizer").failed("tokenizer class 'OddTokenizer' is not known");
    configured("added_tokens_decoder", {{"x", Json::object()}}).failed("has an entry 'x'");
    configured("added_tokens_decoder", {{"99999999", {{"content", "<x>"}}}}).failed("has id 99999999");
}
