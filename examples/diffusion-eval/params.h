#pragma once

#include "eval/condition.h"
#include "run-flags.h"

#include <cstddef>
#include <string>
#include <vector>

enum class Command { qa, summary, merge };

struct EvalParams : RunParams {
    Command                  command = Command::qa;
    std::vector<std::string> models;
    std::string              data;
    std::string              output;
    std::string              form; // template file
    bool                     raw      = false;
    size_t                   n_items  = 0; // 0: all
    size_t                   shard    = 0;
    size_t                   n_shards = 1;
    buoy::QaPlan             plan;
    std::vector<std::string> edits;
    bool                     attn_metrics = false;

    std::vector<std::string> files; // of summary and merge
    bool                     force = false;
    bool                     json  = false;
    bool                     csv   = false;
    std::string              figures; // directory
    bool                     verbose = false;
    std::string              log_file;
};

// Returns false when the program is done already (--help, --version); throws buoy::Error on a wrong command line.
bool parse_params(int argc, char ** argv, EvalParams & params);
