#include "kernel/kernels.h"

namespace buoy {

const KernelTable * kernel_table() {
#if defined(__x86_64__)
    const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return can ? avx2_table() : nullptr;
#else
    return nullptr;
#endif
}

} // namespace buoy
