#pragma once

#include <string>
#include <vector>

namespace buoy::test {

// A Python with numpy, or "" where there is none (tests then say so and return).
const std::string & numpy_python();

// Runs a script with sys.argv[1:] = args and returns what it printed; a failed check, with its errors, where it did not end with 0.
std::string run_python(const std::string & script, const std::vector<std::string> & args);

// The script tests/FOLDER/NAME, which may import what lies beside it and in tests/metrics.
std::string test_script(const std::string & folder, const std::string & name);

} // namespace buoy::test
