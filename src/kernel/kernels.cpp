#include "kernel/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace buoy {

namespace {

#if defined(__x86_64__)
bool has_avx_vnni() { // older compilers don't know its name
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}
#endif

std::vector<const KernelTable *> find_tables() {
    std::vector<const KernelTable *> tables;
    const auto                       add = [&](bool can_run, const KernelTable * table) {
        if (can_run && table != nullptr) {
            tables.push_back(table);
        }
    };
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    add(avx512 && __builtin_cpu_supports("avx512vnni"), vnni_table());
    add(avx2 && has_avx_vnni(), avxvnni_table());
    add(avx2, avx2_table());
#elif defined(__aarch64__) && defined(__linux__)
    add((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0, neon_table());
#elif defined(__aarch64__) && defined(__APPLE__)
    add(true, neon_table());
#endif
    return tables;
}

} // namespace

const std::vector<const KernelTable *> & kernel_tables() {
    static const std::vector<const KernelTable *> tables = find_tables();
    return tables;
}

const char * kernel_set_name(KernelSet set) {
    switch (set) {
        case KernelSet::none: return "none";
        case KernelSet::avx2: return "AVX2";
        case KernelSet::avxvnni: return "AVX-VNNI";
        case KernelSet::vnni: return "AVX-512 VNNI";
        case KernelSet::amx: return "AMX";
        case KernelSet::neon: return "NEON";
    }
    return "unknown";
}

const KernelTable * kernel_table() { return kernel_tables().empty() ? nullptr : kernel_tables().front(); }

} // namespace buoy
