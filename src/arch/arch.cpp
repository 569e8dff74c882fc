#include "arch/arch.h"

#include <array>

namespace buoy {

namespace {

const std::array<const Arch *, 12> & all_archs() {
    static const std::array<const Arch *, 12> archs = {
        &arch_llada, &arch_dream,    &arch_llama,        &arch_qwen2,     &arch_qwen3,  &arch_qwen3moe,
        &arch_sdar,  &arch_sdar_moe, &arch_fast_dllm_v2, &arch_llada_moe, &arch_llada2, &arch_rnd1};
    return archs;
}

} // namespace

const Arch * find_arch(const std::string & name) {
    for (const Arch * arch : all_archs()) {
        if (name == arch->name) {
            return arch;
        }
    }
    return nullptr;
}

std::vector<std::string> arch_names() {
    std::vector<std::string> names;
    for (const Arch * arch : all_archs()) {
        names.emplace_back(arch->name);
    }
    return names;
}

} // namespace buoy
