#include "buoy/bundled.h"
#include "buoy/error.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

TEST_CASE("a bundled model is found by its name, first in the directory given") {
    const fs::path directory = fs::temp_directory_path() / "buoy-test-bundled";
    fs::create_directories(directory);
    const fs::path file = directory / "buoy-arm.gguf";
    std::ofstream(file) << "x";
    CHECK(fs::equivalent(buoy::find_model(buoy::bundled_autoregressive_model, directory), file));
    CHECK(buoy::bundled_directories(directory).front() == directory);
    fs::remove_all(directory);
}

TEST_CASE("what is not the name of a bundled model stays as it is") {
    CHECK(buoy::find_model("model.gguf") == "model.gguf");
    CHECK(buoy::find_model("") == "");
    CHECK(buoy::find_model("no/such/buoy-mdm") == "no/such/buoy-mdm");
}
