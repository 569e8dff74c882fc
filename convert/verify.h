#pragma once

#include "convert.h"
#include "tensor-plan.h"

#include <string>
#include <vector>

namespace buoy {

// Reads the written file again and compares every tensor with its source; the largest NMSE first. A tensor that is not there,
// or one kept as it was that differs, is an Error.
std::vector<TensorError> verify_tensors(const std::string & path, const std::vector<PlannedTensor> & tensors,
                                        int n_threads);

LogitsError compare_logits(const std::string & exact_path, const std::string & path, int n_threads);

} // namespace buoy
