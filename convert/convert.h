#pragma once

#include "buoy/log.h"
#include "buoy/weight-type.h"

#include <ggml.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

// Called with the bytes that are done and those there will be; returning false cancels.
using ByteProgress = std::function<bool(uint64_t done, uint64_t total)>;

struct ConvertParams {
    std::string              input;  // a Hugging Face directory, a GGUF file or a llama2.c .bin
    std::string              output; // the GGUF file to write, or a directory for one named by convention
    OutType                  outtype = OutType::f16;
    std::vector<std::string> tensor_types;         // REGEX=TYPE
    std::string              imatrix;              // importance matrix file
    std::string              mask_token;           // its text or id; empty: as the input says
    int64_t                  block_length = 0;     // of block-causal attention; 0: as the input says
    bool                     force_causal = false; // an autoregressive model, although its files name a diffusion model
    uint64_t                 split_max    = 0;     // bytes of a file; 0: all in one
    bool                     dry_run      = false; // plan only
    bool                     verify       = false; // read the output again and compare
    bool         verify_logits = false; // run the input's precision and the output on a fixed prompt and compare
    bool         force         = false; // replace an existing output
    int          n_threads     = 0;     // 0: one per core
    LogCallback  log;
    ByteProgress progress;
};

// What becomes of a tensor.
struct TensorFate {
    std::string          name;
    std::vector<int64_t> ne; // innermost first
    ggml_type            from;
    ggml_type            to;
    uint64_t             n_bytes; // of the output
};

// How far a written tensor is from its source.
struct TensorError {
    std::string name;
    ggml_type   type    = GGML_TYPE_F32;
    double      nmse    = 0; // squared error over squared source
    double      largest = 0; // absolute
};

// How far the outputs of two files of a model are apart on a fixed prompt.
struct LogitsError {
    double  nmse    = 0;
    int64_t n_agree = 0; // rows with the same first choice
    int64_t n_rows  = 0;
};

struct ConvertResult {
    std::vector<std::string>   paths; // written, or to be written
    std::vector<TensorFate>    tensors;
    uint64_t                   n_bytes = 0; // of all files
    std::vector<TensorError>   errors;      // with verify, the largest first
    std::optional<LogitsError> logits;      // with verify_logits
};

// Writes the model as GGUF that our loader and upstream's libllama read. The output appears under its name only when it is
// complete.
ConvertResult convert_hf(const ConvertParams & params);

} // namespace buoy
