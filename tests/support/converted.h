#pragma once

#include "io/gguf-file.h"

#include <string>
#include <vector>

namespace buoy::test {

// The checkpoint tests/oracles/<name> as GGUF, converted once per process; where shared_dir() is not empty, data/<name> in there, too.
// outtype: f32, f16, bf16, q8_0.
std::string converted_oracle(const std::string & name, const std::string & outtype = "f32");

// The checkpoint directory it comes from.
std::string oracle_dir(const std::string & name);

// The values of an F32 tensor that has to be there.
std::vector<float> floats(const GgufFile & file, const std::string & name);

} // namespace buoy::test
