#pragma once

#include "tokenizer.h"

#include <unordered_map>

namespace buoy {

// Fills special_ids, add_bos and add_eos from tokenizer_config.json, special_tokens_map.json, config.json,
// generation_config.json and the post-processor, in this order of trust.
void read_special_tokens(Tokenizer & out, const std::unordered_map<std::string, int32_t> & ids, const std::string & dir,
                         const HfJson & tokenizer, const HfJson & config, const LogCallback & log);

// From tokenizer_config.json, else chat_template.jinja, else chat_template.json. Needs no special tokens read.
void read_chat_template(Tokenizer & out, const std::string & dir);

} // namespace buoy
