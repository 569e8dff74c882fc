#pragma once

#include "buoy/engine.h"
#include "buoy/generate.h"

#include <cstdint>
#include <string>
#include <vector>

struct Options {
    buoy::ModelParams    model;
    buoy::EngineParams   engine;
    buoy::GenerateParams generate;

    std::string prompt;
    std::string prompt_file;
    std::string tokens; // "1,2,3" or "@FILE"
    std::string logits_out;
    int64_t     seed         = -1;
    bool        raw          = false;
    bool        list_devices = false;
    bool        verbose      = false;
};

// Returns false when the program is done already (--help, --version), with the exit code set; throws buoy::Error on a
// wrong command line.
bool parse_options(int argc, char ** argv, Options & options, int & exit_code);

// The ids of --tokens.
std::vector<int32_t> parse_tokens(const std::string & text);
