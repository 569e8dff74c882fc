#include "support/oracle-vocab.h"

#include "support/converted.h"
#include "support/paths.h"
#include "support/vocab-gguf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

namespace buoy::test {

namespace {

nlohmann::json read_json(const std::string & oracle, const std::string & file) {
    std::ifstream stream(oracle_dir(oracle) + "/" + file);
    return nlohmann::json::parse(stream);
}

std::string write_vocab(const std::string & oracle) {
    const nlohmann::json tokenizer = read_json(oracle, "tokenizer.json");
    const nlohmann::json config    = read_json(oracle, "tokenizer_config.json");

    VocabGguf         file;
    const std::string pattern = tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    const auto        has     = [&](const char * part) { return pattern.find(part) != std::string::npos; };
    file.pre                  = has("{1,3}") ? "llama-bpe" : has("?+") ? "llada-moe" : "qwen2";
    file.strings["tokenizer.ggml.normalizer"] = tokenizer["normalizer"].is_null() ? "none" : "nfc";
    file.strings["tokenizer.chat_template"]   = config["chat_template"];

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
    for (const std::string name : {"bos", "eos", "mask"}) {
        const auto token = config.find(name + "_token");
        if (token != config.end() && token->is_string()) {
            const auto id =
                std::find(file.tokens.begin(), file.tokens.end(), token->get<std::string>()) - file.tokens.begin();
            file.ids[name] = static_cast<uint32_t>(id);
        }
    }
    file.flags["add_bos_token"] = tokenizer["post_processor"]["type"] == "Sequence";

    const std::string path = temp_dir() + "/" + oracle + ".gguf";
    file.write(path);
    return path;
}

} // namespace

std::vector<OracleVocab> oracle_vocabs() {
    std::vector<OracleVocab> vocabs;
    for (const std::string name :
         {"dream", "fast-dllm-v2", "llada", "llada-256-bf16", "llada-moe", "llada2-moe", "llada21-moe", "llama",
          "llama32-rope-scaled-tied", "qwen2", "qwen3-tied", "rnd1", "sdar"}) {
        vocabs.push_back({name, write_vocab(name), read_json(name, "tokenizer_cases.json")});
    }
    for (const char * name :
         {"llada", "llada-256-bf16", "dream", "llama", "llama32-rope-scaled-tied", "qwen2", "qwen3-tied",
          "stable-diffcoder", "illada", "nemotron-labs-diffusion", "diffusion-gemma"}) {
        vocabs.push_back(
            {std::string(name) + " converted", converted_oracle(name), read_json(name, "tokenizer_cases.json")});
    }
    return vocabs;
}

} // namespace buoy::test
