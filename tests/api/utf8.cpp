// Characters of a text that may be any bytes.
#include "buoy/utf8.h"

#include <cstdio>
#include <string>

void example_utf8(const std::string &) {
    const std::string text = buoy::utf8_repair("na\xc3\xafve \xff");
    for (size_t at = 0; at < text.size();) {
        const size_t n = buoy::utf8_sequence_length(std::string_view(text).substr(at));
        std::printf("%d ", buoy::utf8_width(text.substr(at, n)));
        at += n;
    }
    std::printf("\n");
}
