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

// How far the outputs of two files of a model are apart on a fixed prompt.
struct LogitsError {
    double  nmse    = 0;
    int64_t n_agree = 0; // rows with the same first choice
    int64_t n_rows  = 0;
};

LogitsError compare_logits(const std::string & exact_path, const std::string & path, int n_threads);

} // namespace buoy
