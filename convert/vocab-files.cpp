#include "vocab-files.h"

#include "buoy/message.h"
#include "io/json-file.h"
#include "pre-tokenizer.h"

#include <filesystem>
#include <sstream>

namespace buoy {

namespace {

using Json = nlohmann::json;

// The pre_tokenizer and normalizer of a tokenizer class.
std::pair<Json, Json> rules_of_class(const std::string & name, const std::string & path) {
    const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    if (name == "DreamTokenizer" || name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast") {
        const Json split = {{"type", "Split"}, {"pattern", {{"Regex", qwen2_pattern()}}}, {"behavior", "Isolated"}};
        return {{{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}, {{"type", "NFC"}}};
    }
    if (name == "GPT2Tokenizer" || name == "GPT2TokenizerFast") {
        Json gpt2         = bytes;
        gpt2["use_regex"] = true;
        return {gpt2, nullptr};
    }
    fail(path, ": tokenizer class ", in_quotes(name),
         " is not known without a tokenizer.json; known: DreamTokenizer, Qwen2Tokenizer, GPT2Tokenizer");
}

Json read_merges_file(const std::string & path) {
    Json               merges = Json::array();
    std::istringstream lines(load_text(path));
    std::string        line;
    for (bool first = true; std::getline(lines, line); first = false) {
        if (!line.empty() && line.back() == '\r') {
            line.pop_back();
        }
        if (!line.empty() && !(first && line.compare(0, 8, "#version") == 0)) {
            merges.push_back(line);
        }
    }
    return merges;
}

// added_tokens_decoder: {"151643": {"content": …, "special": true}, …}
Json read_added(const HfJson & tokenizer_config) {
    Json         added   = Json::array();
    const Json * decoder = tokenizer_config.find({"added_tokens_decoder"});
    if (decoder == nullptr) {
        return added;
    }
    for (const auto & [id, entry] : decoder->items()) {
        const bool number = !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
        if (!number || !entry.is_object()) {
            fail(tokenizer_config.path(), ": 'added_tokens_decoder' has an entry ", in_quotes(id),
                 ", expected ids and objects");
        }
        Json token  = entry;
        token["id"] = static_cast<uint64_t>(std::stoul(id));
        added.push_back(std::move(token));
    }
    return added;
}

} // namespace

std::optional<HfJson> tokenizer_from_vocab_files(const std::string & dir) {
    namespace fs = std::filesystem;

    const std::string vocab_path  = (fs::path(dir) / "vocab.json").string();
    const std::string merges_path = (fs::path(dir) / "merges.txt").string();
    const std::string config_path = (fs::path(dir) / "tokenizer_config.json").string();
    std::error_code   error;
    if (!fs::exists(vocab_path, error) || !fs::exists(merges_path, error) || !fs::exists(config_path, error)) {
        return std::nullopt;
    }
    const HfJson config = HfJson::load(config_path);
    auto [pre, normalizer] =
        rules_of_class(config.find_string({"tokenizer_class"}).value_or("without a name"), config_path);

    return HfJson(
        vocab_path,
        {{"added_tokens", read_added(config)},
         {"normalizer", normalizer},
         {"pre_tokenizer", pre},
         {"model",
          {{"type", "BPE"}, {"vocab", HfJson::load(vocab_path).json()}, {"merges", read_merges_file(merges_path)}}}});
}

} // namespace buoy
