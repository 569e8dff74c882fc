// Numbers and sizes as people type them.
#include "buoy/parse.h"

#include <cstdio>
#include <string>

void example_parse(const std::string &) {
    if (const auto number = buoy::parse_number<float>("0.25")) {
        std::printf("%.2f\n", static_cast<double>(*number));
    }
    std::printf("%s\n", buoy::size_text(buoy::parse_size("limit", "1.5G")).c_str());
}
