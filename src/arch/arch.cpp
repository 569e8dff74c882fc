#include "arch/arch.h"

#include <algorithm>

namespace buoy {

namespace {

const std::vector<Arch> & known_archs() {
    static const std::vector<Arch> archs = all_archs();
    return archs;
}

} // namespace

Arch Arch::named(const char * name, const ArchTraits & traits) const {
    Arch arch         = *this;
    arch.model.name   = name;
    arch.model.traits = traits;
    return arch;
}

const Arch * find_arch(const std::string & name) {
    const auto found = std::find_if(known_archs().begin(), known_archs().end(),
                                    [&](const Arch & arch) { return name == arch.model.name; });
    return found == known_archs().end() ? nullptr : &*found;
}

std::vector<std::string> arch_names() {
    std::vector<std::string> names;
    for (const Arch & arch : known_archs()) {
        names.emplace_back(arch.model.name);
    }
    return names;
}

} // namespace buoy
