// One version: the file VERSION, from which programs, packages and the Python package take it.

#include "buoy/version.h"
#include "support/cli.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string read_source(const std::string & path) {
    std::ifstream     file(source_dir() + "/" + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

} // namespace

TEST_CASE("version: library, programs and the Python package have the same, and it has a release page") {
    std::string version = read_source("VERSION");
    REQUIRE(!version.empty());
    version.pop_back(); // the newline
    CHECK(std::string(buoy::version()).rfind(version, 0) == 0);
    for (const char * name : {"llama-diffusion-cli", "llama-diffusion-eval", "llama-attention", "llama-diffusion-bench",
                              "llama-diffusion-convert", "llama-diffusion-server"}) {
        ProgramSpec spec;
        spec.name                = name;
        spec.args                = {"--version"};
        const std::string output = run_program(spec).out;
        CHECK((output == std::string(name) + " " + version + "\n" ||
               output.rfind(std::string(name) + " " + version + " (", 0) == 0));
        spec.args = {"--help-man"};
        CHECK(contains(run_program(spec).out, "\"buoy " + version + "\""));
    }
    CHECK(read_source("gguf-py/VERSION") == version + "\n");
    CHECK(contains(read_source("gguf-py/pyproject.toml"), "version = { file = \"VERSION\" }"));
    CHECK(contains(read_source("docs/releases/" + version + ".md"), "# buoy " + version + "\n"));
    CHECK(contains(read_source("docs/CHANGELOG.md"), version));
}
