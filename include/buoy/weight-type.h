#pragma once

#include "buoy/model.h"

#include <string>
#include <vector>

namespace buoy {

// The type that most of the weights are stored as, by their bytes, as ggml calls it: q4_0, f16.
std::string weight_type(const ModelFile & file);

// What the converter stores weights as: one type for most matrices, and rules that raise the sensitive ones. The mixes are
// llama.cpp's.
enum class OutType { f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m, iq4_xs, q4_0, q3_k_m };

// In any case (q4_k_m, Q4_K_M); an unknown one is an Error that lists the known.
OutType                  parse_outtype(const std::string & name);
std::vector<std::string> outtype_names();

} // namespace buoy
