#pragma once

#include <cstdint>
#include <string>

namespace buoy::test {

// A random model of an architecture that only libllama knows: E 64, H 4, Hkv 2, D 32, two layers, small_vocab()'s 261 tokens.
// The keys may lie.
struct TinyGemma {
    std::string arch        = "gemma";
    uint32_t    n_layer_key = 2;
    uint32_t    n_head_key  = 4;
};

// Path of the GGUF file.
std::string tiny_gemma(const TinyGemma & keys = {});

} // namespace buoy::test
