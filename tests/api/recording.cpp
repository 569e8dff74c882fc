// What a recording holds, and one of its arrays.
#include "buoy/recording.h"

#include <cstdio>
#include <string>

void example_recording(const std::string & dir) {
    const std::string path = dir + "/run.npz";
    if (buoy::analysis::check_unfinished(path) == buoy::analysis::Unfinished::no) {
        std::printf("%s", buoy::analysis::recording_text(path).c_str());
        const auto                  run     = buoy::analysis::Recording::open(path);
        const buoy::analysis::Array pattern = run.read(buoy::Tap::pattern, run.steps()[0], run.layers()[0]);
        std::printf("%zu numbers of step %d\n", pattern.values.size(), run.steps()[0]);
    }
}
