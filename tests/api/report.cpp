// One page to explore a recording.
#include "buoy/report.h"

#include <cstdio>
#include <string>

void example_report(const std::string & dir) {
    buoy::report::ReportParams params;
    params.paths = {dir + "/run.npz"};
    params.out   = dir + "/run.html";
    params.force = true;
    for (const std::string & note : buoy::report::write_report(params)) {
        std::printf("%s\n", note.c_str());
    }
}
