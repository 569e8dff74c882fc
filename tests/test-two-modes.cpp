// The modes of one file as two models: in evaluations, and in comparisons of recordings.

#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <map>
#include <sstream>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::json;

std::string two_mode_model() {
    RandomModel random = small_model("nemotron-labs-diffusion", 8);
    random.n_ctx       = 64;
    return random_gguf(random);
}

ProgramResult run(const char * program, const Args & args) {
    ProgramSpec spec;
    spec.name = program;
    spec.args = args;
    return run_program(spec);
}

ProgramResult eval(const std::string & models, const std::string & output, const Args & more = {}) {
    const std::string data = test::write_file(temp_dir(), "q.jsonl", R"({"question": "ab", "answers": ["c"]})");
    return run("llama-diffusion-eval",
               Args{"qa", "-m", models, "-d", data, "-o", output, "-n", "8", "-c", "512", "--raw"} + more);
}

// What each model of a result file answered.
std::map<std::string, std::string> answers(const std::string & path) {
    std::map<std::string, std::string> found;
    std::istringstream                 lines(read_file(path));
    std::string                        line;
    std::getline(lines, line); // what the run was made with
    while (std::getline(lines, line)) {
        const Json result      = Json::parse(line);
        found[result["model"]] = result["prediction"];
    }
    return found;
}

} // namespace

TEST_CASE("eval: the modes of one file are models of their own") {
    const std::string model  = two_mode_model();
    const std::string output = temp_dir() + "/all.jsonl";
    REQUIRE(eval(model + ":ar," + model + ":diffusion," + model + ":spec", output).code == 0);
    const auto by_name = answers(output);
    REQUIRE(by_name.size() == 3);
    const std::string name = std::filesystem::path(model).stem().string();
    CHECK(by_name.at(name + ":ar") != by_name.at(name + ":diffusion"));
    CHECK(by_name.at(name + ":ar") == by_name.at(name + ":spec")); // which is what speculation promises

    // each answers as it does alone, asked for by the flag
    for (const char * mode : {"ar", "diffusion", "spec"}) {
        const std::string alone = temp_dir() + "/alone.jsonl";
        REQUIRE(eval(model, alone, {"--mode", mode}).code == 0);
        CHECK(answers(alone).at(name) == by_name.at(name + ":" + mode));
    }
    CHECK(eval(two_mode_model() + ":both", temp_dir() + "/none.jsonl").code == 1);
    const ProgramResult one = eval(random_gguf(small_model("llada", 8)) + ":ar", temp_dir() + "/none.jsonl");
    CHECK(one.code == 1);
    CHECK(one.err.find("llada is a diffusion model and has no other mode") != std::string::npos);
}

TEST_CASE("eval: a run in one mode is not continued in another") {
    const std::string model  = two_mode_model();
    const std::string output = temp_dir() + "/r.jsonl";
    REQUIRE(eval(model, output, {"--mode", "ar"}).code == 0);
    CHECK(eval(model, output, {"--mode", "ar"}).code == 0); // it is complete
    for (const Args & other : {Args{"--mode", "diffusion"}, Args{"--mode", "spec"}, Args{}, Args{"--force-causal"}}) {
        const ProgramResult result = eval(model, output, other);
        CHECK(result.code == 1);
        CHECK(result.err.find("settings") != std::string::npos);
    }
}

TEST_CASE("attention: the recordings of two modes are compared") {
    const std::string model = two_mode_model();
    const std::string dir   = temp_dir();
    for (const char * mode : {"ar", "diffusion"}) {
        CHECK(cli({"-m", model, "-p", "once upon a time", "-n", "8", "--mode", mode, "--attn-dump", dir + "/" + mode})
                  .code == 0);
    }
    const auto compare = [&](const char * a, const char * b) {
        const ProgramResult result = run("llama-attention", {"compare", "--json", dir + "/" + a, dir + "/" + b});
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
        return Json::parse(result.out)["recordings"][0]["overall"];
    };
    const Json same = compare("ar", "ar");
    CHECK(same["received_distance"] == 0);
    CHECK(same["pattern_distance"] == 0);
    const Json modes = compare("ar", "diffusion");
    CHECK(modes["received_distance"].get<double>() > 0.01);
    CHECK(modes["pattern_distance"].get<double>() > 0.01);
    const Json back = compare("diffusion", "ar");
    CHECK(back["received_distance"].get<double>() == doctest::Approx(modes["received_distance"].get<double>()));
}
