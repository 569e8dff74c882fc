#include "text/word-chunks.h"

#include <algorithm>
#include <array>

namespace buoy {

namespace {

constexpr size_t chunk_length_max = 4096;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// 0 < result <= chunk_length_max
size_t chunk_length(std::string_view text) {
    for (size_t at = chunk_length_max; at > chunk_length_max / 2; at--) {
        if (text[at] == ' ' && !is_space(text[at - 1]) && !is_space(text[at + 1])) {
            return at;
        }
    }
    size_t at = chunk_length_max;
    while (is_continuation(text[at]) && at > chunk_length_max - 4) {
        at--;
    }
    return at;
}

} // namespace

bool splits_in_loop(const std::string & pre) {
    static const std::array<const char *, 27> names{
        "llama3",           "llama-v3",    "llama-bpe",   "falcon3",    "falcon-h1", "pixtral", "lfm2",    "dbrx",
        "smaug-bpe",        "glm4",        "chatglm-bpe", "qwen2",      "qwen35",    "kormo",   "f2llmv2", "grok-2",
        "deepseek-r1-qwen", "stablelm2",   "hunyuan",     "solar-open", "gpt-2",     "phi-2",   "mpt",     "olmo",
        "bailingmoe",       "bailingmoe2", "llada-moe",
    };
    return std::find(names.begin(), names.end(), pre) != names.end();
}

std::vector<std::string_view> word_chunks(std::string_view text) {
    std::vector<std::string_view> chunks;
    while (text.size() > chunk_length_max + 1) {
        const size_t length = chunk_length(text);
        chunks.push_back(text.substr(0, length));
        text.remove_prefix(length);
    }
    chunks.push_back(text);
    return chunks;
}

} // namespace buoy
