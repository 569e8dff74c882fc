#pragma once

#include <string>

namespace buoy::test {

// The development data beside the repository, or "" where it is absent (tests then say so and return).
std::string shared_dir();

// The repository, and where the build put the programs.
std::string source_dir();
std::string bin_dir();

// Whether what is tested is compiled with sanitizers; the tests themselves never are.
bool is_sanitized();

// A fresh directory for one test case, removed when the process ends.
std::string temp_dir();

} // namespace buoy::test
