#pragma once

#include "graph/graph.h"
#include "model/loaded-model.h"

#include <string>
#include <vector>

namespace buoy {

// One architecture: how its file is read and how it computes.
struct Arch {
    ModelRecipe model;
    GraphRecipe graph;

    // The same under another name, with other traits.
    Arch named(const char * name, const ArchTraits & traits) const;
};

// Every architecture. A file of this folder has a block and the architectures that compute it: <name>.cpp defines <name>_archs(), and
// the build makes the list of the files.
std::vector<Arch> all_archs();

// Null where the name is not ours.
const Arch * find_arch(const std::string & name);

std::vector<std::string> arch_names();

} // namespace buoy
