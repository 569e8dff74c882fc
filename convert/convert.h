#pragma once

#include "buoy/log.h"

#include <string>

namespace buoy {

enum class OutType { f32, f16, bf16, q8_0 };

// f32, f16, bf16 or q8_0; anything else is an Error that lists them.
OutType parse_outtype(const std::string & name);

struct ConvertOptions {
    std::string      input;  // a Hugging Face checkpoint directory
    std::string      output; // the GGUF file to write
    OutType          outtype   = OutType::f16;
    bool             force     = false; // replace an existing output
    int              n_threads = 0;     // 0: one per core
    LogCallback      log;
    ProgressCallback progress;
};

// Writes the checkpoint as one GGUF file that our loader and upstream's libllama read. The output appears under its
// name only when it is complete.
void convert_hf(const ConvertOptions & options);

} // namespace buoy
