#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::test {

struct HfTensor {
    std::string          name;
    std::vector<int64_t> shape;
    std::vector<float>   values;
    std::string          dtype = "F32"; // or F16, BF16; F8_E4M3, whose values are the codes
};

// A safetensors file with exactly these bytes in its header's place.
std::string safetensors_bytes(const std::string & header, const std::string & data);
std::string safetensors_bytes(const std::vector<HfTensor> & tensors);

void        write_file(const std::string & path, const std::string & bytes);
std::string read_file(const std::string & path);

// A tiny checkpoint with random weights, to be spoiled by the test before it is written.
struct HfDir {
    nlohmann::json        config;
    nlohmann::json        tokenizer;
    nlohmann::json        tokenizer_config;
    std::vector<HfTensor> tensors;

    HfTensor & tensor(const std::string & name);
    void       remove(const std::string & name);

    // Into a fresh directory, which is returned.
    std::string write() const;
};

// architecture: LLaDAModelLM, DreamModel, LlamaForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM. Two layers of width 32,
// four heads of 8, two of them for keys (LLaDA: four); the embedding has some more rows than the tokenizer has tokens.
HfDir tiny_checkpoint(const std::string & architecture);

} // namespace buoy::test
