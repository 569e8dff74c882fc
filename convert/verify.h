#pragma once

#include "tensor-plan.h"

#include <string>
#include <vector>

namespace buoy {

// How far a written tensor is from its source.
struct TensorError {
    std::string name;
    ggml_type   type    = GGML_TYPE_F32;
    double      nmse    = 0; // squared error over squared source
    double      largest = 0; // absolute
};

// Reads the written file again and compares every tensor with its source; the largest NMSE first. A tensor that is not there,
// or one kept as it was that differs, is an Error.
std::vector<TensorError> verify_tensors(const std::string & path, const std::vector<PlannedTensor> & tensors,
                                        int n_threads);

} // namespace buoy
