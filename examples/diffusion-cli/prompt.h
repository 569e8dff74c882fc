#pragma once

#include "buoy/vocab.h"
#include "params.h"

#include <cstdint>
#include <string>
#include <vector>

// The text of -p or -f, from a file or standard input where they say so.
std::string read_prompt(const CliParams & params);

// What llama.cpp makes of the backslashes in a prompt: \n \r \t \' \" \\ and \xHH; all others stay as they are.
std::string unescaped(const std::string & text);

struct Prompt {
    std::vector<int32_t>           tokens;
    std::vector<buoy::ChatMessage> messages; // what the chat template made them from; none without it
};

// That text as tokens, through the chat template where there is one; or the ids of --tokens or --case.
Prompt make_prompt(const CliParams & params, const buoy::Vocab & vocab);

std::string read_text_file(const std::string & path, const char * what);
