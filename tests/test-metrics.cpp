// llama-attention against the Python package, which computes the same from the definitions with numpy alone.

#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

using namespace buoy::test;

namespace {

bool ready() {
    if (numpy_python().empty()) {
        skip("no Python with numpy");
        return false;
    }
    return true;
}

std::string script(const std::string & name) {
    return "import sys\nsys.dont_write_bytecode = True\nsys.path[:0] = ['" + source_dir() + "/tests/metrics', '" +
           source_dir() +
           "/gguf-py']\n"
           "exec(open('" +
           source_dir() + "/tests/metrics/" + name + "').read())\n";
}

const std::string program = bin_dir() + "/llama-attention";

} // namespace

TEST_CASE("metrics: every number is numpy's, on random and degenerate recordings") {
    if (!ready()) {
        return;
    }
    const std::string out = run_python(script("check.py"), {program, temp_dir()});
    CHECK(contains(out, "numbers"));
}

TEST_CASE("metrics: real recordings of a diffusion and an autoregressive model") {
    if (!ready()) {
        return;
    }
    std::vector<std::string> args = {program, temp_dir()};
    for (const char * arch : {"llada", "llama"}) {
        args.push_back(temp_dir() + "/" + arch + ".npz");
        const ProgramResult result =
            cli({"-m", tiny_model(arch), "-p", "the cat, sat.", "-n", "8", "--ignore-eos", "--attn-dump", args.back(),
                 "--attn-reduce", "none", "--attn-taps", "pattern,q,k", "--attn-dtype", "f32"});
        REQUIRE(result.code == 0);
    }
    CHECK(contains(run_python(script("check.py"), args), "numbers"));
    CHECK(contains(run_python(script("exports.py"), args), "2 exports"));
}

TEST_CASE("metrics: exports are read with numpy and give the same figures") {
    if (!ready()) {
        return;
    }
    CHECK(contains(run_python(script("exports.py"), {program, temp_dir()}), "7 exports"));
}
