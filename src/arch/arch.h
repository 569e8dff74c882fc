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
};

// Every architecture, one a file of this folder: <name>.cpp defines arch_<name>. The build makes the list of the files.
const std::vector<const Arch *> & all_archs();

// Null where the name is not ours.
const Arch * find_arch(const std::string & name);

std::vector<std::string> arch_names();

} // namespace buoy
