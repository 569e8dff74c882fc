#pragma once

#include "buoy/model.h"
#include "kernel/choice.h"
#include "model/placement.h"

#include <ggml.h>

namespace buoy {

class GgufFile;

// Whether the quantised matrices are to be kept as F16 in memory, for speed on a CPU. `automatic` says yes, in one line, for
// diffusion models when what our kernels can't read as it is then needs at most half of the free memory.
bool choose_unpack(const GgufFile & file, const Placement & placement, const ModelParams & params,
                   const Traits & traits, const KernelChoice & products);

// n_rows rows of n_cols values from any type ggml can read to F16, on that many threads at most.
void unpack_rows(ggml_type type, const uint8_t * from, ggml_fp16_t * to, int64_t n_cols, int64_t n_rows, int n_threads);

} // namespace buoy
