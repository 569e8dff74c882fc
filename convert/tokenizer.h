#pragma once

#include "buoy/log.h"
#include "pre-tokenizer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

// llama.cpp's numbering
enum class TokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// Everything tokenizer.ggml.* and tokenizer.chat_template* hold.
struct Tokenizer {
    PreTokenizer             pre;
    std::vector<std::string> tokens; // one per row of the embedding
    std::vector<TokenType>   types;
    std::vector<float>       scores; // not for byte_level
    std::vector<std::string> merges; // not for spm

    std::map<std::string, int32_t>     special_ids;        // bos, eos, eot, eom, unknown, seperator, padding, mask
    bool                               mask_named = false; // the files say which token the mask is
    bool                               add_bos    = false;
    bool                               add_eos    = false;
    std::optional<std::string>         chat_template;
    std::map<std::string, std::string> chat_templates_named;

    std::optional<HfJson> file; // where all this comes from, as tokenizer.json has it
};

// Reads tokenizer.json and what surrounds it. n_vocab is the number of embedding rows: ids that the tokenizer does not
// use become [PADn], but for those after the last of a whole_text tokenizer: other writers of these leave them out.
Tokenizer read_tokenizer(const std::string & dir, const HfJson & config, int64_t n_vocab, const LogCallback & log);

} // namespace buoy
