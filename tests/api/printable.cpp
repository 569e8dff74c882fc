// A model's text may hold anything; a terminal gets lines, no commands.
#include "buoy/printable.h"

#include <cstdio>

void example_printable(const std::string &) {
    const std::string text = "one\n\x1b]0;title\x07two";
    std::printf("%s\n", buoy::printable_lines(text).c_str());
    std::printf("%s\n", buoy::printable_json("\"\u009b\"").c_str()); // the same JSON
    std::printf("%zu\n", buoy::printable_length("\u00e9t\u00e9"));
}
