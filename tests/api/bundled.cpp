// The models that come with the programs, by name.
#include "buoy/bundled.h"
#include "buoy/error.h"

#include <cstdio>
#include <string>

void example_bundled(const std::string &) {
    try {
        std::printf("%s\n", buoy::find_model(buoy::bundled_diffusion_model, "/another/directory/first").c_str());
    } catch (const buoy::Error & error) { // says where it looked
        std::printf("%s\n", error.what());
    }
}
