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

using ByteSink = std::function<void(const void * data, size_t size)>;

// Reads, reorders and converts one tensor piece by piece, in order, on n_threads threads. Memory stays at a few
// megabytes whatever the tensor's size.
TensorHealth stream_tensor(const PlannedTensor & tensor, const Safetensors & source, int n_threads,
                           const ByteSink & sink);

} // namespace buoy
