#pragma once

#include <string>

namespace buoy::test {

// What the reference code made (tests/oracles), unpacked by the build: a folder a checkpoint, and decoders/.
std::string oracles_dir();

// More data, beside the repository; "" where it is absent (tests then skip()).
std::string shared_dir();

// The repository, and where the build put the programs.
std::string source_dir();
std::string bin_dir();

// Whether what is tested is compiled with sanitizers; the tests themselves never are.
bool is_sanitized();

// A fresh directory for one test case, removed when the process ends.
std::string temp_dir();

} // namespace buoy::test
