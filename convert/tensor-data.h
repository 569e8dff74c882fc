#pragma once

#include "tensor-plan.h"

#include <cstdint>
#include <functional>

namespace buoy {

// Values worth a warning: the file is written all the same.
struct TensorHealth {
    int64_t n_not_finite = 0; // NaN or infinite in the checkpoint
    int64_t n_overflow   = 0; // finite there, infinite in the output type
};

// Takes the bytes of the next piece; the buffer is handed over, and one to fill next comes back.
using PieceSink = std::function<std::vector<char>(std::vector<char> piece)>;

// Reads, reorders and converts one tensor piece by piece, in order, on n_threads threads. Memory stays at a few
// megabytes whatever the tensor's size. buffer is scratch, to be kept between tensors. imatrix: importance of the columns, [n_cols] or [n_cols, n_last]; null: none.
TensorHealth stream_tensor(const PlannedTensor & tensor, const float * imatrix, int n_threads,
                           std::vector<char> & buffer, const PieceSink & sink);

// The same values as floats, row by row in the output's order: visit(first row, rows, values), one piece at a time.
using FloatVisitor = std::function<void(int64_t first, int64_t n_rows, const float * values)>;
void visit_source(const PlannedTensor & tensor, const FloatVisitor & visit);

} // namespace buoy
