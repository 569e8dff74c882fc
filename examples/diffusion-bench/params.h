#pragma once

#include "device-flags.h"
#include "sweep.h"

#include <string>
#include <vector>

enum class OutputFormat { md, csv, json, jsonl };

struct BenchParams : DeviceParams {
    std::string model_spec; // not empty: write a random model to model_path and be done
    std::string model_path;
    bool        force = false;

    std::vector<Case> cases;
    OutputFormat      format      = OutputFormat::md;
    int               repetitions = 3;
    bool              warmup      = true;
    bool              profile     = false;
    bool              growth      = false;
};

// Returns false when the program is done already (--help, --version); throws buoy::Error on a wrong command line.
bool parse_params(int argc, char ** argv, BenchParams & params);
