// Messages that read as the library's do.
#include "buoy/message.h"

#include <cstdio>
#include <string>

void example_message(const std::string &) {
    const std::string typed = "4\x1b[31m2";
    try {
        buoy::fail("`n_ctx`: ", buoy::in_quotes(typed), " is not a whole number"); // in_quotes shows the escape as text
    } catch (const buoy::Error & error) {
        std::printf("%s\n", error.what());
    }
    std::printf("%s\n", buoy::concat(buoy::printable(typed), " has ", typed.size(), " bytes").c_str());
}
