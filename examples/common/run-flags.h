#pragma once

#include "buoy/context.h"
#include "buoy/generate.h"
#include "console.h"
#include "device-flags.h"
#include "flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What every program that generates can be told.
struct RunParams : PlacementParams {
    RunParams() { model.unpack = buoy::Unpack::automatic; }

    std::string            model_path;
    buoy::ModelParams      model;
    buoy::ContextParams    context;
    buoy::GenerateParams   generate; // with the seed that is used
    std::string            pc_table;
    int64_t                seed = -1;   // as given
    std::optional<int32_t> max_predict; // --max-predict
    bool                   ignore_eos = false;
};

constexpr const char * threads_help = "number of threads; 0: chosen by the size of the work, at most one per core";

// Of -t; -1, which llama.cpp takes, is 0.
int32_t parse_threads(const std::string & where, const std::string & text);
void    add_threads_flag(FlagTable & table, int32_t & n_threads);

// The flags, a group each. What they set must outlive the table.
void add_sampling_flags(FlagTable & table, RunParams & o);
void add_denoising_flags(FlagTable & table, RunParams & o);
void add_compute_flags(FlagTable & table, RunParams & o, const std::string & context_default);

// What the preset means for the model, as flags.
void tell_preset(const Console & console, const FlagTable & table, const buoy::GenerateParams & params,
                 const buoy::ModelInfo & info);

// What several flags decide together; draws the seed where that was asked for, reads the table of frequencies.
void settle(RunParams & o);
