#pragma once

#include "flags.h"
#include "params.h"

// The flags that only this program has, a group each. What they set must outlive the table.
void add_input_flags(FlagTable & table, CliParams & o);
void add_visual_flag(FlagTable & table, CliParams & o); // behind those of denoising
void add_output_flags(FlagTable & table, CliParams & o);
void add_attn_flags(FlagTable & table, CliParams & o);

// Throws buoy::Error where flags of the attention group miss what they are about.
void check_attn(const CliParams & o);

// Those of tokens-freq.
void add_freq_flags(FlagTable & table, CliParams & o);
