#include "kernel/kernels.h"

namespace buoy {

const KernelTable * kernel_table() {
#if defined(__x86_64__)
    const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool has_vnni = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && vnni_table() != nullptr;
    return !can ? nullptr : has_vnni ? vnni_table() : avx2_table();
#else
    return nullptr;
#endif
}

} // namespace buoy
