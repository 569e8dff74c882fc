#pragma once

#include "arch.h"
#include "buoy/log.h"
#include "convert.h"
#include "io/safetensors.h"

#include <ggml.h>

#include <vector>

namespace buoy {

// One tensor of the output: where its values come from and what becomes of them.
struct PlannedTensor {
    std::string               name;
    const SafetensorsTensor * source = nullptr; // null: the values are in `values`
    std::vector<float>        values;
    int64_t                   n_cols  = 1; // of the stored matrix; a one-dimensional tensor has n rows of one
    int64_t                   n_rows  = 0;
    int                       n_dims  = 2;
    int64_t                   n_group = 0; // rows per head whose halves are interleaved; 0: rows stay in order
    ggml_type                 type    = GGML_TYPE_F32;

    // The GGUF tensor's dimensions, innermost first.
    std::vector<int64_t> ne() const {
        return n_dims == 1 ? std::vector<int64_t>{n_rows} : std::vector<int64_t>{n_cols, n_rows};
    }
};

// Assigns every tensor of the checkpoint its place. Missing tensors and wrong shapes are Errors, tensors without a
// place are reported.
std::vector<PlannedTensor> plan_tensors(const ArchMapping & mapping, const HfParams & params,
                                        const Safetensors & source, OutType outtype, const LogCallback & log);

} // namespace buoy
