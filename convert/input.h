#pragma once

#include "buoy/log.h"
#include "io/gguf-writer.h"
#include "model/quant-mix.h"
#include "tensor-plan.h"
#include "tokenizer.h"

#include <optional>
#include <string>
#include <vector>

namespace buoy {

// What a conversion starts from, whatever its format.
struct ConvertInput {
    GgufWriter                 header; // keys, no tensors
    std::vector<PlannedTensor> tensors;
    MixModel                   model;
    std::string                name;                // general.name
    std::string                size_label;          // general.size_label
    std::optional<HfJson>      tokenizer;           // tokenizer.json, to check the written one against
    bool                       needs_mask  = false; // it denoises a mask token
    bool                       may_denoise = false; // an autoregressive architecture, but its files name a mask token
    std::vector<std::string>   files;               // what is read, and must not be written
};

// A Hugging Face directory, a GGUF file (of a split model any part) or a llama2.c .bin, told apart by what they are.
// force_causal: an autoregressive architecture is one, although the checkpoint's code has the name of a diffusion model.
ConvertInput open_input(const std::string & path, const QuantMix & mix, const LogCallback & log,
                        bool force_causal = false);

ConvertInput open_hf(const std::string & dir, const QuantMix & mix, const LogCallback & log, bool force_causal);
ConvertInput open_gguf(const std::string & path, const QuantMix & mix, const LogCallback & log);
ConvertInput open_llama2c(const std::string & path, const QuantMix & mix);

} // namespace buoy
