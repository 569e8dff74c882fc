// The one exception of the library.
#include "buoy/error.h"
#include "buoy/vocab.h"

#include <cstdio>
#include <string>

void example_error(const std::string & dir) {
    try {
        buoy::Vocab::load(dir + "/absent.gguf");
    } catch (const buoy::Error & error) {
        const bool request = error.kind() == buoy::ErrorKind::request; // else it failed while running
        std::printf("%s: %s\n", request ? "wrong request" : "failed", error.what());
    }
}
