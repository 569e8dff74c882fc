#pragma once

#include "arch.h"
#include "buoy/log.h"
#include "io/safetensors.h"
#include "tensor-source.h"

#include <ggml.h>

#include <vector>

namespace buoy {

// One tensor of the output: where its values come from and what becomes of them.
struct PlannedTensor {
    std::string               name;
    std::vector<TensorSource> parts; // of equal shape and type, one behind the other (experts); none: `values`
    std::vector<float>        values;
    int64_t                   n_cols  = 1; // of the stored matrix; a one-dimensional tensor has n rows of one
    int64_t                   n_rows  = 0; // of all parts
    int                       n_dims  = 2;
    int64_t                   n_last  = 1;             // matrices in a tensor of three dimensions
    int64_t                   n_group = 0;             // rows per head whose halves are interleaved; 0: none
    ggml_type                 type    = GGML_TYPE_F32; // of the output

    int64_t  n_elements() const { return n_rows * n_cols; }
    uint64_t n_bytes() const { return static_cast<uint64_t>(n_rows) * ggml_row_size(type, n_cols); }

    // The type its values come in.
    ggml_type source_type() const { return parts.empty() ? GGML_TYPE_F32 : parts.front().type; }

    // The GGUF tensor's dimensions, innermost first.
    std::vector<int64_t> ne() const {
        switch (n_dims) {
            case 1: return {n_rows * n_cols};
            case 2: return {n_cols, n_rows};
            default: return {n_cols, n_rows / n_last, n_last};
        }
    }
};

// Assigns every tensor of the checkpoint its place; none is quantised yet. Missing tensors and wrong shapes are Errors,
// tensors without a place are reported.
std::vector<PlannedTensor> plan_tensors(const ArchMapping & mapping, const HfParams & params, const HfJson & config,
                                        const Safetensors & source, const LogCallback & log);

} // namespace buoy
