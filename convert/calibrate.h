#pragma once

#include "buoy/log.h"

#include <cstdint>
#include <functional>
#include <string>

namespace buoy {

// Runs a model over a text with tokens hidden at random, as masked-text.h says.
struct CalibrateParams {
    std::string model; // GGUF
    std::string text;  // file
    std::string output;
    int32_t     n_chunk   = 512; // tokens; at most the model's context
    int32_t     n_max     = 0;   // chunks; 0: all
    uint64_t    seed      = 1;
    int32_t     n_threads = 0; // 0: one per core
    bool        force     = false;
    LogCallback log;

    std::function<bool(uint64_t done, uint64_t total)> progress; // chunks; false cancels
};

struct ImatrixReport {
    size_t   n_tensors = 0;
    uint32_t n_chunks  = 0;
    uint64_t n_tokens  = 0;
};

// The importance matrix of a model: what its matrices are multiplied with while it denoises the text.
ImatrixReport make_imatrix(const CalibrateParams & params);

struct LossReport {
    double   loss     = 0; // mean cross-entropy of the hidden tokens, nats
    double   error    = 0; // its standard error
    uint64_t n_hidden = 0;
};

// How well a model says the hidden tokens, to compare quantisations of it: the same seed hides the same tokens.
LossReport measure_loss(const CalibrateParams & params);

} // namespace buoy
