// Runs the examples of the public headers, one after the other.
#include "buoy/error.h"
#include "buoy/files.h"
#include "buoy/random-model.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include <unistd.h>

#define EXAMPLE(name) void name(const std::string & dir);
#include "examples.inc"
#undef EXAMPLE

int main() try {
    const std::string dir =
        std::filesystem::temp_directory_path().string() + "/buoy-api-examples-" + std::to_string(getpid());
    std::filesystem::create_directories(dir);
    buoy::write_random_model(buoy::parse_random_model("llada:E=64,L=2,H=4,V=300"), dir + "/model.gguf", true);
    buoy::write_file(dir + "/questions.jsonl",
                     "{\"question\": \"Who sat?\", \"answers\": [\"the cat\"], \"passages\": [\"The cat sat.\"]}\n",
                     true);
    example_record(dir); // several read what it wrote
#define EXAMPLE(name)                                                                                                  \
    std::printf("%s\n", #name);                                                                                        \
    name(dir);
#include "examples.inc"
    std::filesystem::remove_all(dir);
    return 0;
} catch (const buoy::Error & error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
