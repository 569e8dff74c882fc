#include "target.h"

#include "buoy/error.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace buoy::fuzz {

std::vector<Target> all_targets() {
    return {case_target(),          chat_template_target(), checkpoint_target(),
            dataset_target(),       edit_target(),          frequency_table_target(),
            gguf_target(),          imatrix_target(),       model_target(),
            npz_target(),           recording_target(),     regions_target(),
            request_target(),       results_target(),       safetensors_target(),
            sentencepiece_target(), vocab_target()};
}

const Target * find_target(const std::string & name) {
    static const std::vector<Target> targets = all_targets();
    for (const Target & target : targets) {
        if (target.name == name) {
            return &target;
        }
    }
    return nullptr;
}

void run_input(const Target & target, const std::string & input) {
    try {
        target.run(input);
    } catch (const Error & error) {
        const std::string message = error.what();
        demand(!message.empty(), "an Error has a message");
        demand(message.find('\n') == std::string::npos, "an Error is one line");
    }
}

void demand(bool holds, const char * what) {
    if (!holds) {
        std::fprintf(stderr, "finding: this does not hold: %s\n", what);
        std::abort();
    }
}

const std::string & scratch_dir() {
    static const std::string dir = [] {
        if (access("/dev/shm", W_OK | X_OK) == 0) {
            setenv("TMPDIR", "/dev/shm", 1);
        }
        return test::temp_dir();
    }();
    return dir;
}

std::string scratch_file(const std::string & name, const std::string & bytes) {
    const std::string path = scratch_dir() + "/" + name;
    test::write_file(path, bytes);
    return path;
}

} // namespace buoy::fuzz
