// --diffusion-visual-out in a headless Chromium, which has decoders of its own.

#include "support/cli.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

using namespace buoy::test;

TEST_CASE("screencast: in a browser") {
    if (numpy_python().empty() ||
        contains(run_python(test_script("report", "chromium.py") + "print(find_chromium())", {}), "None")) {
        skip("no Python or no Chromium");
        return;
    }
    const std::string dir  = temp_dir();
    const Args        args = {"-m", tiny_model("llada"), "-p", "the", "-n", "8", "--diffusion-visual-delay", "200"};
    for (const std::string name : {"run.svg", "run.gif"}) {
        REQUIRE(cli(args + Args{"--ignore-eos", "--diffusion-visual-out", dir + "/" + name}).code == 0);
    }
    // before the first step, eight steps, the answer
    const std::string out =
        run_python(test_script("report", "screencast.py"), {dir + "/run.svg", dir + "/run.gif", "10", "200"});
    CHECK(contains(out, "frames 10"));
}
