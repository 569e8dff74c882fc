#pragma once

#include "buoy/generate.h"

#include <optional>
#include <string>
#include <vector>

namespace buoy {

// A published generation: what it was made with, so that it can be made again.
struct ReplayCase {
    std::string              id;
    std::string              sampler;
    std::vector<int32_t>     prompt;
    GenerateParams           params;  // every setting, and the recorded draws
    std::optional<int32_t>   mask_id; // of the model that it was made with
    std::optional<ModelMode> mode;    // that the model, which has two, was run in
};

// Reads a case from a JSON file: "cases": [{"id", "sampler", "settings", "prompt_ids", "steps"}]. Throws Error where it is not there,
// and for a sampler or setting that is unknown.
ReplayCase load_case(const std::string & path, const std::string & id);

// "FILE.json:ID"
ReplayCase load_case(const std::string & place);

} // namespace buoy
