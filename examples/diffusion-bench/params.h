#pragma once

#include "device-flags.h"
#include "sweep.h"

#include <string>
#include <vector>

enum class OutputFormat { md, csv, json, jsonl };

struct BenchParams : PlacementParams {
    buoy::ModelParams        model;
    std::vector<std::string> lists;  // of values, one for each of parameters()
    std::string              output; // format or file, as typed

    std::string model_spec; // not empty: write a random model to model_path and be done
    std::string model_path;
    bool        force = false;

    std::vector<Case> cases;
    OutputFormat      format      = OutputFormat::md;
    int               repetitions = 3;
    bool              warmup      = true;
    bool              profile     = false;
    bool              growth      = false;
    bool              peak        = false;

    std::vector<int32_t> peak_threads; // numbers of threads to print it for
};

void add_flags(FlagTable & table, BenchParams & params);

// What several flags decide together; throws buoy::Error where they contradict each other.
void settle(BenchParams & params);
