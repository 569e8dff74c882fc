#pragma once

#include "tensor-plan.h"

#include <string>

namespace buoy {

// 656K, 1.2B, 8x7B: parameters by the GGUF naming convention; a mixture of experts says how many and how large with one.
std::string size_label(const std::vector<PlannedTensor> & tensors);

// NAME-SIZE-ENCODING.gguf; the size is left out where the name has one.
std::string file_name(const std::string & name, const std::string & size_label, const std::string & encoding);

} // namespace buoy
