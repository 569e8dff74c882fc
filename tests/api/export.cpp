// A recording in another form.
#include "buoy/export.h"

#include <cstdio>
#include <string>

void example_export(const std::string & dir) {
    buoy::analysis::ExportParams params;
    params.path   = dir + "/run.npz";
    params.format = buoy::analysis::ExportFormat::csv;
    params.out    = dir + "/run.csv";
    params.force  = true;
    buoy::analysis::export_recording(params);
}
