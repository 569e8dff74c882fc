#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace buoy::test {

// The checkpoints in shared/oracles; none, with a message, where the directory is absent.
std::vector<std::string> oracle_names();

nlohmann::json oracle_json(const std::string & oracle, const std::string & file);

// Path of a GGUF file with that checkpoint's tokenizer.
std::string oracle_vocab(const std::string & oracle);

} // namespace buoy::test
