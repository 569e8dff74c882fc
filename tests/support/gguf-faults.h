#pragma once

#include "support/gguf-bytes.h"

#include <functional>
#include <string>
#include <vector>

namespace buoy::test {

// One way to break gguf_sample(), and what follows the path in the message.
struct GgufFault {
    std::string                      name;
    std::function<void(GgufBytes &)> breaks;
    std::string                      message;

    std::string bytes() const; // of the broken sample
};

// The groups are the parts of a header; together they are what the reader and every program over it must refuse.
std::vector<GgufFault> gguf_preamble_faults();
std::vector<GgufFault> gguf_value_faults();
std::vector<GgufFault> gguf_alignment_faults();
std::vector<GgufFault> gguf_tensor_faults();
std::vector<GgufFault> gguf_place_faults();
std::vector<GgufFault> gguf_faults(); // all of them

} // namespace buoy::test
