#pragma once

#include "buoy/generate.h"

#include <string>
#include <vector>

// How much a run may approximate for speed, in one word. What that means is a row of one table for each family of models.

namespace buoy {

// A row of the table. Settings are NAME=VALUE as apply_setting takes them, separated by spaces; exact has none, it is what happens
// without any.
struct PresetFamily {
    std::string              name;
    std::vector<std::string> archs;
    std::string              balanced;
    std::string              fast;
    std::string              found; // how
};

std::vector<PresetFamily> preset_families();

struct AppliedPreset {
    GenerateParams           params;   // without a preset, with what it stands for
    std::vector<std::string> settings; // what it added, NAME=VALUE: the same run without the preset
    std::string              note;     // why that is nothing, where something could be expected
};

// Fills in what params.preset means for the model, where the params leave it open: what they say themselves stays.
AppliedPreset apply_preset(const GenerateParams & params, const ModelInfo & info);

} // namespace buoy
