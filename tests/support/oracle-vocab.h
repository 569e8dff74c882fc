#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace buoy::test {

struct OracleVocab {
    std::string    name;
    std::string    path;  // a GGUF file with its tokenizer
    nlohmann::json cases; // tokenizer_cases.json
};

// Checkpoints in tests/oracles, their tokenizers written by this test, and as the converter writes them.
std::vector<OracleVocab> oracle_vocabs();

} // namespace buoy::test
