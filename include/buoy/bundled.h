#pragma once

#include <string>
#include <vector>

namespace buoy {

// The models that come with the program: a diffusion model and its autoregressive twin, trained on the same text.
constexpr const char * bundled_diffusion_model      = "buoy-mdm";
constexpr const char * bundled_autoregressive_model = "buoy-arm";

// Where they are looked for, in this order: the directory given, beside the program, where an installation puts them, in the
// source tree.
std::vector<std::string> bundled_directories(const std::string & models_dir = "");

// The file of a bundled model for its name, anything else as it is: a file of that name in the working directory comes first.
// Throws Error with the places looked at when a bundled model is not there.
std::string find_model(const std::string & name_or_path, const std::string & models_dir = "");

} // namespace buoy
