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

// Every checkpoint in shared/oracles, its tokenizer written by this test; the architectures that our converter knows also as the
// converter writes them. None, with a message, where the directory is absent.
std::vector<OracleVocab> oracle_vocabs();

} // namespace buoy::test
