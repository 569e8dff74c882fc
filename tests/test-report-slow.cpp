// llama-attention report in a headless Chromium, by mouse and keyboard.

#include "support/cli.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

using namespace buoy::test;

TEST_CASE("report: in a browser") {
    if (numpy_python().empty()) {
        skip("no Python with numpy");
        return;
    }
    if (contains(run_python(test_script("report", "chromium.py") + "print(find_chromium())", {}), "None")) {
        skip("no Chromium");
        return;
    }
    const std::string real = temp_dir() + "/real.npz";
    REQUIRE(cli({"-m", tiny_model("llada"), "-p", "the cat, sat.", "-n", "6", "--attn-dump", real}).code == 0);
    const std::string out =
        run_python(test_script("report", "browser.py"), {bin_dir() + "/llama-attention", temp_dir(), real});
    CHECK(contains(out, "numbers"));
}
