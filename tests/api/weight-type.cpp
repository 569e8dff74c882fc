// What a file's weights are.
#include "buoy/weight-type.h"
#include "buoy/bundled.h"
#include "buoy/error.h"

#include <cstdio>
#include <string>

void example_weight_type(const std::string &) {
    try {
        const buoy::ModelFile file(buoy::find_model(buoy::bundled_diffusion_model));
        std::printf("%s\n", buoy::weight_type(file).c_str());
        std::printf("Q4_K_M is number %zu of the converter's\n",
                    static_cast<size_t>(buoy::parse_outtype("Q4_K_M")) + 1);
    } catch (const buoy::Error & error) {
        std::printf("%s\n", error.what());
    }
}
