#pragma once

#include "support/run-program.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace buoy::test {

using Args = std::vector<std::string>;

Args operator+(Args args, const Args & more);

// Checks that the program ended with 1, printed nothing, and complained in one line that has the culprit in it.
void check_refused(const ProgramResult & result, const std::string & culprit);

// llama-diffusion-cli without timings, with one thread; input is what it reads from standard input.
ProgramResult cli(const std::vector<std::string> & args, const std::string & input = "",
                  const std::map<std::string, std::string> & env = {});

// What --json printed; an empty object, and a failed check, where it did not work.
nlohmann::json cli_json(std::vector<std::string> args);

// A small random model, made once per process; its tokenizer knows bytes and has no chat template.
const std::string & tiny_model(const std::string & arch);

// The same with a chat template: <|im_start|>role\ncontent<|im_end|>\n.
std::string tiny_chat_model(const std::string & arch);

} // namespace buoy::test
