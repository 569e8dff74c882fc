#include "support/oracle-vocab.h"

#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace buoy::test {

std::vector<std::string> oracle_names() {
    std::vector<std::string> names;
    if (shared_dir().empty()) {
        MESSAGE("skipped: no shared directory (BUOY_SHARED_DIR)");
        return names;
    }
    for (const auto & entry : std::filesystem::directory_iterator(shared_dir() + "/oracles")) {
        if (entry.is_directory()) {
            names.push_back(entry.path().filename().string());
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

nlohmann::json oracle_json(const std::string & oracle, const std::string & file) {
    std::ifstream stream(shared_dir() + "/oracles/" + oracle + "/" + file);
    return nlohmann::json::parse(stream);
}

std::string oracle_vocab(const std::string & oracle) {
    const nlohmann::json tokenizer = oracle_json(oracle, "tokenizer.json");
    const nlohmann::json config    = oracle_json(oracle, "tokenizer_config.json");

    VocabGguf file;
    const std::string pattern = tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    file.pre = pattern.find("{1,3}") != std::string::npos ? "llama-bpe" : pattern.find("?+") != std::string::npos ? "llada-moe" : "qwen2";
    file.strings["tokenizer.ggml.normalizer"] = tokenizer["normalizer"].is_null() ? "none" : "nfc";
    file.strings["tokenizer.chat_template"] = config["chat_template"];

    file.tokens.resize(tokenizer["model"]["vocab"].size());
    for (const auto & [token, id] : tokenizer["model"]["vocab"].items()) {
        file.tokens[id.get<size_t>()] = token;
    }
    file.types.resize(file.tokens.size(), 1);
    for (const auto & token : tokenizer["added_tokens"]) {
        file.add(token["content"], token["special"] ? 3 : 4);
    }
    for (const auto & merge : tokenizer["model"]["merges"]) {
        file.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
    for (const std::string name : { "bos", "eos", "mask" }) {
        const auto token = config.find(name + "_token");
        if (token != config.end() && token->is_string()) {
            file.ids[name] = static_cast<uint32_t>(std::find(file.tokens.begin(), file.tokens.end(), token->get<std::string>()) - file.tokens.begin());
        }
    }
    file.flags["add_bos_token"] = tokenizer["post_processor"]["type"] == "Sequence";

    const std::string path = temp_dir() + "/" + oracle + ".gguf";
    file.write(path);
    return path;
}

} // namespace buoy::test
