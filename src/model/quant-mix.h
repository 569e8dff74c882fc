#pragma once

#include "buoy/log.h"
#include "buoy/weight-type.h"

#include <ggml.h>

#include <cstdint>
#include <regex>
#include <span>
#include <string>
#include <vector>

namespace buoy {

struct QuantMix {
    OutType      outtype;
    const char * name; // lower case
    ggml_type    type;
    uint32_t     file_type; // general.file_type

    bool        is_quantised() const { return ggml_is_quantized(type); }
    std::string label() const; // upper case, as file names have it
};

const QuantMix & mix_of(OutType outtype);

// REGEX=TYPE: tensors whose name the expression is found in get this type.
struct TensorTypeRule {
    std::string text;
    std::regex  pattern;
    ggml_type   type;
};

TensorTypeRule parse_tensor_type(const std::string & text);

// What the rules look at in a tensor. type: the one it has, and then the one it gets.
struct MixTensor {
    std::string name;
    int         n_dims = 2;
    int64_t     n_cols = 1;
    ggml_type   type   = GGML_TYPE_F32;
};

// What they look at besides.
struct MixModel {
    std::string arch;
    int64_t     n_layer   = 0;
    int64_t     n_head    = 0;
    int64_t     n_head_kv = 0;
    int64_t     n_expert  = 0;
};

// Sets the type of every tensor that may be quantised; norms, routers and biases keep theirs. The same choice as
// llama.cpp's quantiser makes, and the same type where rows do not fill the blocks of the wanted one.
void choose_types(std::span<MixTensor> tensors, const QuantMix & mix, const MixModel & model, bool has_imatrix = false,
                  const std::vector<TensorTypeRule> & rules = {}, const LogCallback & log = nullptr);

} // namespace buoy
