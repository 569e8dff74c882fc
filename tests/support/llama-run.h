#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace buoy::test {

// libllama's logits of every row, [T, V]: plain attention, F32 K/V. Throws std::runtime_error if it can't load the file.
std::vector<float> llama_logits(const std::string & gguf_path, const std::vector<int32_t> & tokens);

// libllama's greedy continuation of a text, as text, without the prompt.
std::string llama_greedy_text(const std::string & gguf_path, const std::string & prompt, int n_tokens);

} // namespace buoy::test
