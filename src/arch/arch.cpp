#include "arch/arch.h"

namespace buoy {

const Arch * find_arch(const std::string & name) {
    for (const Arch * arch : all_archs()) {
        if (name == arch->model.name) {
            return arch;
        }
    }
    return nullptr;
}

std::vector<std::string> arch_names() {
    std::vector<std::string> names;
    for (const Arch * arch : all_archs()) {
        names.emplace_back(arch->model.name);
    }
    return names;
}

} // namespace buoy
