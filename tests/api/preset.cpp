// What a preset means for each family.
#include "buoy/preset.h"

#include <cstdio>
#include <string>

void example_preset(const std::string &) {
    for (const buoy::PresetFamily & family : buoy::preset_families()) {
        std::printf("%s: balanced is %s, fast is %s\n", family.name.c_str(), family.balanced.c_str(),
                    family.fast.c_str());
    }
    buoy::GenerateParams params;
    params.preset = buoy::Preset::fast; // and generate() does the rest
    buoy::ModelInfo info;
    info.arch = "llama";
    std::printf("%s\n", buoy::apply_preset(params, info).note.c_str());
}
