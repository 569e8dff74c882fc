#pragma once

#include "buoy/error.h"
#include "support/fuzz.h"

#include <string>
#include <vector>

namespace buoy::fuzz {

using test::below;
using test::Random;

// What a fuzzer feeds: small correct inputs to begin with, what reads them, and changes that get past the first check.
struct Target {
    std::string name;
    std::vector<std::string> (*seeds)();
    void (*run)(const std::string & input); // returns or throws buoy::Error; whatever else happens is a finding
    void (*mutate)(std::string & input, Random & random);
};

Target case_target();
Target chat_template_target();
Target checkpoint_target();
Target dataset_target();
Target edit_target();
Target frequency_table_target();
Target gguf_target();
Target imatrix_target();
Target model_target();
Target npz_target();
Target recording_target();
Target regions_target();
Target request_target();
Target results_target();
Target safetensors_target();
Target sentencepiece_target();
Target vocab_target();

std::vector<Target> all_targets();
const Target *      find_target(const std::string & name);

// Runs it; an Error is fine where it is one line.
void run_input(const Target & target, const std::string & input);

// A finding, where it does not hold.
void demand(bool holds, const char * what);

// False where the question throws an Error, which is an answer, too.
template <typename Ask> bool answered(const Ask & ask) {
    try {
        ask();
        return true;
    } catch (const Error &) {
        return false;
    }
}

// The input as a file. Its folder is in memory where the system has one, so that fsync costs nothing.
const std::string & scratch_dir();
std::string         scratch_file(const std::string & name, const std::string & bytes);

} // namespace buoy::fuzz
