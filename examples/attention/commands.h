#pragma once

#include "buoy/index-ranges.h"
#include "program.h"

// The commands, a file each. What the recordings' flags are called when recording is known to all of them.
void add_file_commands(Program & program);   // info, cat
void add_metric_commands(Program & program); // one for each metric
void add_export_command(Program & program);
void add_report_command(Program & program);

// A command of one or several recordings; the paths go into `target`.
Command & add_recording_command(Program & program, const std::string & name, const std::string & help,
                                std::vector<std::string> & target, int n_min, int n_max);

// --layers of metrics and exports.
void add_layers_flag(FlagTable & table, buoy::IndexRanges & layers);
