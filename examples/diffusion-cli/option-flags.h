#pragma once

#include "flags.h"
#include "options.h"

// What the command line can ask for instead of a run.
struct Asked {
    bool help     = false;
    bool markdown = false;
    bool version  = false;
};

// The flags, a group each, in the order in which the help shows them. What they set must outlive the table.
void add_input_flags(FlagTable & table, Options & o);
void add_sampling_flags(FlagTable & table, Options & o);
void add_denoising_flags(FlagTable & table, Options & o);
void add_compute_flags(FlagTable & table, Options & o);
void add_output_flags(FlagTable & table, Options & o, Asked & asked);
void add_attn_flags(FlagTable & table, Options & o);

// Throws buoy::Error where flags of the attention group miss what they are about.
void check_attn(const Options & o);

// Those of tokens-freq.
void add_freq_flags(FlagTable & table, Options & o, Asked & asked);
