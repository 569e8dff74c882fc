// Files that appear whole or not at all.
#include "buoy/files.h"
#include "buoy/error.h"

#include <cstdio>
#include <string>
#include <vector>

void example_files(const std::string & dir) {
    buoy::write_npy(dir + "/array.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
    const std::vector<float> array = buoy::read_npy(dir + "/array.npy", {2, 3});
    std::printf("%zu numbers\n", array.size());
    buoy::write_file(dir + "/text.txt", "as it is\n", true);
    try {
        buoy::write_file(dir + "/text.txt", "again\n", false);
    } catch (const buoy::Error & error) {
        std::printf("%s\n", error.what());
    }
}
