#pragma once

#include "buoy/log.h"

#include <ggml.h>

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

namespace buoy {

struct PlannedTensor;

// What a model is converted to: one type for most matrices, and rules that raise the sensitive ones. The mixes are llama.cpp's.
enum class OutType { f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m, iq4_xs, q4_0, q3_k_m };

struct QuantMix {
    OutType      outtype;
    const char * name; // lower case
    ggml_type    type;
    uint32_t     file_type; // general.file_type

    bool        is_quantised() const { return ggml_is_quantized(type); }
    std::string label() const; // upper case, as file names have it
};

// In any case (q4_k_m, Q4_K_M); an unknown one is an Error that lists the known.
OutType                  parse_outtype(const std::string & name);
const QuantMix &         mix_of(OutType outtype);
std::vector<std::string> outtype_names();

// REGEX=TYPE: tensors whose name the expression is found in get this type.
struct TensorTypeRule {
    std::string text;
    std::regex  pattern;
    ggml_type   type;
};

TensorTypeRule parse_tensor_type(const std::string & text);

// What the rules look at besides a tensor's name and shape.
struct MixModel {
    std::string arch;
    int64_t     n_layer   = 0;
    int64_t     n_head    = 0;
    int64_t     n_head_kv = 0;
    int64_t     n_expert  = 0;
};

// Sets the type of every tensor that may be quantised; norms, routers and biases keep theirs. The same choice as
// llama.cpp's quantiser makes, and the same type where rows do not fill the blocks of the wanted one.
void choose_types(std::vector<PlannedTensor> & tensors, const QuantMix & mix, const MixModel & model, bool has_imatrix,
                  const std::vector<TensorTypeRule> & rules, const LogCallback & log);

} // namespace buoy
