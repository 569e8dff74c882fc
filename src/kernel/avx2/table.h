#pragma once

#include "kernel/kernels.h"

namespace buoy {

// Null where this build is for another kind of processor. Whether the one that runs has AVX2 is for the caller to ask.
const KernelTable * avx2_table();

} // namespace buoy
